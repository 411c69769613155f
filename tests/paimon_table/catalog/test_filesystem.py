"""Tables as directories of a warehouse."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.catalog.filesystem import FilesystemCatalog
from paimon_table.catalog.table_name import TableName
from paimon_table.errors import ConfigError
from paimon_table.storage.file_io import LocalFileIO
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO, SimulatedCrash
from tests.support.builders import committer, data_file, message, orders_schema

ORDERS = TableName("lake", "orders")


def test_a_table_lies_where_paimon_looks_for_it() -> None:
    files = FilesystemCatalog(MemoryFileIO(), "/warehouse").files(TableName("lake", "orders"))
    assert files.paths.root == "/warehouse/lake.db/orders"


def test_directories_without_a_schema_are_no_tables() -> None:
    io = MemoryFileIO()
    for path in (
        "/w/notes.txt",
        "/w/lake.db/readme",
        "/w/lake.db/left/snapshot/snapshot-1",
        "/w/lake/t/schema/schema-0",
    ):
        io.write(path, b"x")
    catalog = FilesystemCatalog(io, "/w")
    catalog.create(ORDERS, orders_schema())
    assert catalog.names() == [ORDERS]


@pytest.mark.parametrize("linked", ["", "snapshot", "schema"])
def test_a_table_behind_a_symbolic_link_is_not_dropped(tmp_path: Path, linked: str) -> None:
    """What the link points to may be somebody else's too."""
    catalog = FilesystemCatalog(LocalFileIO(), str(tmp_path))
    table = catalog.create(ORDERS, orders_schema())
    committer(table).commit(1, [message(new_files=[data_file("a")])], {})
    link = Path(table.paths.root) / linked
    link.rename(tmp_path / "elsewhere")
    link.symlink_to(tmp_path / "elsewhere")
    before = catalog.load(ORDERS).state()
    with pytest.raises(ConfigError, match=f"{link} is a symbolic link"):
        catalog.drop(ORDERS)
    assert catalog.load(ORDERS).state() == before


def test_a_drop_that_was_cut_short_can_be_done_again() -> None:
    """After every single operation there is the table, to be dropped again, or nothing of it is left."""
    whole = MemoryDisk()
    table = FilesystemCatalog(MemoryFileIO(whole), "/w").create(ORDERS, orders_schema())
    for identifier in (1, 2):
        committer(table).commit(identifier, [message(new_files=[data_file(str(identifier))])], {})
    for step in range(100):
        disk = MemoryDisk(dict(whole.files))
        try:
            FilesystemCatalog(MemoryFileIO(disk, crash_after=step), "/w").drop(ORDERS)
        except SimulatedCrash:
            catalog = FilesystemCatalog(MemoryFileIO(disk), "/w")
            assert catalog.names() == ([ORDERS] if disk.files else [])
            catalog.drop(ORDERS)
            assert disk.files == {}
        else:
            return
    raise AssertionError("the drop never ends")
