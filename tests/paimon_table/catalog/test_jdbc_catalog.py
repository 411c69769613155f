"""What a JDBC catalog adds to files: names that others have taken, and the lock under which it publishes."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from paimon_table.catalog.filesystem import FilesystemCatalog
from paimon_table.catalog.jdbc_catalog import JdbcCatalog
from paimon_table.catalog.jdbc_database import JdbcDatabase
from paimon_table.catalog.jdbc_dialects import JdbcSettings
from paimon_table.catalog.table_name import TableName
from paimon_table.errors import ConfigError, SinkUnavailable
from paimon_table.storage.file_io import LocalFileIO
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import AddColumn
from tests.support.builders import committer, data_file, message, orders_schema

ORDERS = TableName("lake", "orders")


def _catalog(root: Path, sleep_s: Callable[[float], None] = time.sleep) -> JdbcCatalog:
    files = FilesystemCatalog(LocalFileIO(), str(root / "lake"))
    database = JdbcDatabase(JdbcSettings(f"jdbc:sqlite:{root}/names.db"))
    return JdbcCatalog(database, files, "jdbc", locks=True, sleep_s=sleep_s)


@pytest.mark.slow
def test_what_is_published_waits_for_the_lock_of_another_writer(tmp_path: Path) -> None:
    other, held, waits = _catalog(tmp_path), ExitStack(), list[float]()

    def released(seconds: float) -> None:
        waits.append(seconds)
        held.close()

    catalog = _catalog(tmp_path, sleep_s=released)
    table = catalog.create(ORDERS, orders_schema())
    held.enter_context(other.locked(ORDERS))
    committer(table).commit(1, [message(new_files=[data_file("a")])], {})
    assert waits == [0.1]
    held.enter_context(other.locked(ORDERS))
    table.evolve([AddColumn("x", parse_type("INT"))], time_ms=5)
    assert waits == [0.1, 0.1]
    held.enter_context(other.locked(TableName("lake", "items")))
    catalog.create(TableName("lake", "items"), orders_schema())
    assert waits == [0.1, 0.1, 0.1]


def test_a_lock_that_stays_is_refused_after_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    catalog = _catalog(tmp_path, sleep_s=lambda seconds: now.__setitem__(0, now[0] + seconds))
    catalog.create(ORDERS, orders_schema())
    with (
        _catalog(tmp_path).locked(ORDERS),
        pytest.raises(SinkUnavailable, match=r"holds the lock jdbc\.lake\.orders .* for more than 480 s"),
        catalog.locked(ORDERS),
    ):
        raise AssertionError("two writers hold one lock")
    assert now[0] == 480


@pytest.mark.slow
def test_a_directory_with_rows_of_another_catalog_is_not_taken(tmp_path: Path) -> None:
    catalog = _catalog(tmp_path)
    table = catalog.files_of_tables.create(ORDERS, orders_schema())
    assert catalog.find(ORDERS) is None, "a crash may have left a table without rows"
    committer(table).commit(1, [message(new_files=[data_file("a")])], {})
    for look in (catalog.find, lambda name: catalog.create(name, orders_schema())):
        with pytest.raises(ConfigError, match=r"run INSERT INTO paimon_tables VALUES \('jdbc', 'lake', 'orders'\)"):
            look(ORDERS)
    assert catalog.names() == []
    table.io.delete_tree(table.paths.schema_dir)
    with pytest.raises(ConfigError, match="else remove the directory"):
        catalog.find(ORDERS)


@pytest.mark.slow
def test_a_lock_that_could_not_be_released_is_released_by_the_next_commit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(JdbcDatabase):
        fails = False

        def change(self, statement: str, *parameters: object) -> None:
            if self.fails:
                raise SinkUnavailable("the server restarts")
            super().change(statement, *parameters)

    database = Failing(JdbcSettings(f"jdbc:sqlite:{tmp_path}/names.db"))
    files = FilesystemCatalog(LocalFileIO(), str(tmp_path / "lake"))
    waits: list[float] = []
    catalog = JdbcCatalog(database, files, "jdbc", locks=True, sleep_s=waits.append)
    catalog.create(ORDERS, orders_schema())
    with catalog.locked(ORDERS):
        database.fails = True
    assert "stays until the next commit: the server restarts" in caplog.text
    database.fails = False
    with catalog.locked(ORDERS):
        pass
    assert waits == []
