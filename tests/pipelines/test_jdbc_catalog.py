"""Pipelines whose tables have their names in a database: what they write, what the file may say, what is refused."""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from paimon_table import FilesystemCatalog, JdbcCatalog, JdbcDatabase, JdbcSettings
from paimon_table.catalog.table_name import TableName
from paimon_table.errors import ConfigError, Outage
from paimon_table.storage.file_io import LocalFileIO
from pipelines.config.config_file import load_pipeline
from pipelines.storage import catalog_of
from pipelines.trial.trial_pipeline import TrialPipeline
from tests.support.command import tidemark
from tests.support.keyed_events import batch_of, created, run_through_outages
from tests.support.plain_values import sorted_rows

ORDERS = TableName("lake", "t")
FILE = """\
version: 1
name: shop
source: { files: { path: dump }, format: debezium-json }
checkpoint: state
catalog:
  type: jdbc
  uri: 'jdbc:sqlite:names.db'
  warehouse: lake
  options: { lock.enabled: true, catalog-key: shop }
defaults: { options: { bucket: 2, changelog-producer: lookup } }
tables:
  - match: { table: t }
    into: lake.t
"""


def file_of(directory: Path, text: str = FILE) -> Path:
    (directory / "dump").mkdir(exist_ok=True)
    file = directory / "shop.yaml"
    file.write_text(text)
    return file


class _Failing(JdbcDatabase):
    """Breaks connections before or after a statement, as ``faults`` says."""

    faults: list[str]

    def _run(self, statement: str, parameters: Sequence[object], result: Callable[[Any], Any]) -> Any:
        fault = self.faults.pop() if self.faults else "none"
        if fault == "before":
            raise Outage("broken before the statement")
        found = super()._run(statement, parameters, result)
        if fault == "after":
            raise Outage("broken after the statement")
        return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_every_record_is_in_the_table_once_whatever_happens_to_the_database(tmp_path: Path, seed: int) -> None:
    config = load_pipeline(file_of(tmp_path))
    assert config.catalog.uri is not None
    database = _Failing(JdbcSettings(config.catalog.uri))
    database.faults = []

    def expire_locks(_: float) -> None:
        """A statement that broke after a lock was taken leaves it: time passes."""
        with sqlite3.connect(tmp_path / "names.db") as connection:
            connection.execute("UPDATE paimon_distributed_locks SET expire_time_seconds = -1")

    files = FilesystemCatalog(LocalFileIO(), config.catalog.warehouse)
    catalog = JdbcCatalog(database, files, "shop", locks=True, sleep_s=expire_locks)
    pipeline = TrialPipeline(config, tmp_path / "trial", catalog)
    draw, offset = random.Random(seed), 0
    for number in range(8):
        records = batch_of(
            offset, [created({"id": offset + i}, n=number, **({"x": i} if number > 3 else {})) for i in range(3)]
        )
        offset += 3
        database.faults[:] = draw.choices(["none", "before", "after"], weights=[4, 1, 1], k=draw.randrange(12))
        run_through_outages(pipeline, records)
    database.faults.clear()
    table = catalog.load(ORDERS)
    rows = [[i, i // 3, i % 3 if i > 11 else None] for i in range(offset)]
    assert sorted_rows([list(row.values()) for row in table.to_arrow().to_pylist()]) == sorted_rows(rows)
    assert sorted(row for _, part in table.changes() for row in part.column("id").to_pylist()) == list(range(offset))
    assert catalog.names() == [ORDERS]


@pytest.mark.slow
def test_commands_find_a_table_by_its_name(tmp_path: Path) -> None:
    file = file_of(tmp_path)
    config = load_pipeline(file)
    TrialPipeline(config, tmp_path / "trial", catalog_of(config)).run(batch_of(0, [created({"id": 1}, n=1)]))
    for command in ("show", "scan", "compact", "snapshots"):
        done = tidemark("table", *command.split(), "lake.t", "--config", file)
        assert done.returncode == 0, done.stderr
    with sqlite3.connect(tmp_path / "names.db") as connection:
        names = connection.execute("SELECT * FROM paimon_tables").fetchall()
        locks = connection.execute("SELECT * FROM paimon_distributed_locks").fetchall()
    assert (names, locks) == ([("shop", "lake", "t")], [])


def test_a_name_without_files_is_refused_with_both_places(tmp_path: Path) -> None:
    config = load_pipeline(file_of(tmp_path))
    catalog = catalog_of(config)
    assert isinstance(catalog, JdbcCatalog)
    TrialPipeline(config, tmp_path / "trial", catalog).run(batch_of(0, [created({"id": 1}, n=1)]))
    catalog.files_of_tables.drop(ORDERS)
    with pytest.raises(ConfigError, match=r"names\.db has table lake\.t, but there is no schema in .*lake\.db/t"):
        catalog.find(ORDERS)
    assert catalog.names() == []
    catalog.drop(ORDERS)
    assert catalog.find(ORDERS) is None


FORM = (
    "expected the address of a database, jdbc:postgresql://HOST:PORT/DATABASE, jdbc:mysql://HOST:PORT/DATABASE or "
    "jdbc:sqlite:FILE"
)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("jdbc:sqlite:names.db", "postgresql://host/db", f"7:8: catalog.uri: {FORM}"),
        ("jdbc:sqlite:names.db", "jdbc:oracle:thin:@host:1521:db", FORM),
        ("jdbc:sqlite:names.db", "jdbc:postgresql:db", FORM),
        ("jdbc:sqlite:names.db", "jdbc:postgresql://host", FORM),
        ("jdbc:sqlite:names.db", "jdbc:mysql://one,two/db", FORM),
        ("jdbc:sqlite:names.db", "jdbc:mysql://me:word@host/db", FORM),
        ("jdbc:sqlite:names.db", "jdbc:sqlite::memory:", "expected the path of a file behind jdbc:sqlite:"),
        (
            "jdbc:sqlite:names.db",
            "jdbc:postgresql://h/db?user=me&password=word",
            "logs would show a login in the address; set `jdbc.user` in `options`",
        ),
        (
            "jdbc:sqlite:names.db",
            "jdbc:mysql://h/db?trustCertificateKeyStoreUrl=x",
            "the parameter 'trustCertificateKeyStoreUrl' is not supported; known: allowPublicKeyRetrieval,",
        ),
        (
            "jdbc:sqlite:names.db",
            "jdbc:mysql://h/db?sslMode=STRICT",
            "the parameter 'sslMode' is 'STRICT'; known: disabled,",
        ),
        ("  uri: 'jdbc:sqlite:names.db'\n", "", "`type: jdbc` needs the address of the database; add `uri: jdbc:"),
        ("type: jdbc", "type: filesystem", "`uri` has no effect with `type: filesystem`; set `type: jdbc` or"),
        (
            "type: jdbc\n  uri: 'jdbc:sqlite:names.db'\n",
            "type: filesystem\n",
            "'lock.enabled' has no effect with `type: filesystem`",
        ),
        (
            "  warehouse",
            "  token: word\n  warehouse",
            "`token` has no effect with `type: jdbc`; set `type: rest`, or remove it",
        ),
        (
            "lock.enabled: true",
            "lock.enabled: maybe",
            "9:14: catalog.options: 'lock.enabled' is 'maybe'; write true or false",
        ),
        (
            "lock.enabled: true",
            "jdbc.pasword: word",
            "unknown storage option 'jdbc.pasword'; did you mean 'jdbc.password'?",
        ),
        (
            "lock.enabled: true",
            "s3.endpoint: 'http://h'",
            "'s3.endpoint' has no effect: neither the warehouse nor the checkpoint",
        ),
    ],
)
def test_what_a_file_says_wrong_about_the_database_is_told_at_its_place(
    tmp_path: Path, before: str, after: str, said: str
) -> None:
    assert before in FILE
    done = tidemark("validate", file_of(tmp_path, FILE.replace(before, after)))
    assert done.returncode == 2
    assert said in done.stderr
    assert "word" not in done.stderr.replace("password", "").replace("pasword", "")


@pytest.mark.parametrize(
    "uri",
    [
        "jdbc:postgresql://one:5432,two:5433/names?sslmode=verify-full&currentSchema=lake",
        "jdbc:postgresql://[::1]/names",
        "jdbc:mysql://host/names?useSSL=true&serverTimezone=UTC",
        "jdbc:sqlite:/var/lib/names.db",
    ],
)
def test_addresses_that_java_takes_are_taken(tmp_path: Path, uri: str) -> None:
    config = load_pipeline(file_of(tmp_path, FILE.replace("jdbc:sqlite:names.db", uri)))
    assert config.catalog.uri == uri
    assert config.catalog.place == config.catalog.location == f"{tmp_path}/lake"


@pytest.mark.slow
def test_a_pipeline_moves_from_a_filesystem_catalog_with_the_statement_that_it_shows(tmp_path: Path) -> None:
    by_files = FILE.replace("type: jdbc\n  uri: 'jdbc:sqlite:names.db'", "type: filesystem")
    by_files = by_files.replace("  options: { lock.enabled: true, catalog-key: shop }\n", "")
    config, first = load_pipeline(file_of(tmp_path, by_files)), batch_of(0, [created({"id": 1}, n=1)])
    TrialPipeline(config, tmp_path / "trial", catalog_of(config)).run(first)

    config = load_pipeline(file_of(tmp_path))
    catalog = catalog_of(config)
    assert catalog.names() == []
    with pytest.raises(ConfigError, match=r"does not have table lake\.t, but .*lake\.db/t has snapshots") as refused:
        catalog.find(ORDERS)
    statement = re.search(r"INSERT INTO paimon_tables VALUES \('shop', 'lake', 't'\)", str(refused.value))
    assert statement is not None
    with sqlite3.connect(tmp_path / "names.db") as connection:
        connection.execute(statement[0])
    pipeline = TrialPipeline(config, tmp_path / "trial", catalog)
    pipeline.run(first)  # its first batch, which the table has
    pipeline.run(batch_of(1, [created({"id": 2}, n=2)]))
    assert sorted((row["id"], row["n"]) for row in catalog.load(ORDERS).to_arrow().to_pylist()) == [(1, 1), (2, 2)]
