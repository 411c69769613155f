"""The protocol of catalogs, which find, create, change and drop tables by name.

A new kind of catalog needs a module next to ``filesystem`` and a line in ``pipelines.storage``. It must pass
``tests/paimon_table/catalog/test_catalog_contract.py``. Code that reads or writes rows uses tables, not catalogs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from paimon_table.catalog.table_name import TableName
from paimon_table.errors import ConfigError
from paimon_table.metadata.paths import TablePaths
from paimon_table.metadata.publisher import Publisher
from paimon_table.metadata.snapshot import NewestSnapshot, SnapshotStore
from paimon_table.schema.table_schema import TableSchema, from_json
from paimon_table.storage.file_io import FileIO
from paimon_table.table import Table


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The location of a table's files, whether or not the table exists."""

    io: FileIO
    paths: TablePaths
    newest: NewestSnapshot | None = None

    @property
    def snapshots(self) -> SnapshotStore:
        return SnapshotStore(self.io, self.paths, self.newest)

    def created_ms(self) -> int | None:
        """When the first schema of the table was created; None if the table does not exist."""
        try:
            return self._schema(0).time_ms
        except FileNotFoundError:
            return None

    def _schema(self, schema_id: int) -> TableSchema:
        path = self.paths.schema_file(schema_id)
        return from_json(self.io.read(path), path)


def present(table: Table | None, name: TableName, warehouse: str) -> Table:
    """The result of ``Catalog.find``; raises ConfigError if it is None."""
    if table is None:
        raise ConfigError(f"there is no table {name} in warehouse {warehouse}; create it or check the name")
    return table


class Catalog(Protocol):
    """The tables of one warehouse. It stays on the driver, where threads may share it: tasks get ``TableContext``.

    Failures of the storage or of a server raise SinkUnavailable or OSError.
    """

    @property
    def warehouse(self) -> str:
        """The name of the catalog in messages."""
        ...

    def check(self) -> None:
        """Raise an error if the catalog does not answer or denies access. Reads no table."""
        ...

    def names(self, database: str | None = None) -> list[TableName]:
        """The existing tables of all databases or of one, always in the same order."""
        ...

    def files(self, name: TableName) -> TableFiles:
        """The location of the table's files; cheaper than ``load``, reads no file."""
        ...

    def publisher(self, name: TableName) -> Publisher:
        """The publisher of an existing table; every table that the catalog opens has its own."""
        ...

    def find(self, name: TableName) -> Table | None:
        """The table with its newest schema; None if it does not exist. Raises ConfigError if it cannot be written."""
        ...

    def load(self, name: TableName) -> Table:
        """``find`` for a table that must exist: raises ConfigError if it does not."""
        ...

    def create(self, name: TableName, schema: TableSchema) -> Table:
        """Create the table with ``schema`` as its first version; raises ConfigError for an invalid schema.

        Safe if several processes create it at the same time: returns a table that already exists unchanged.
        """
        ...

    def drop(self, name: TableName) -> None:
        """Remove the table with all its files; it must have no writers. Idempotent, also after an interrupted drop."""
        ...
