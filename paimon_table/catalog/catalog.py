"""The protocol of catalogs: how tables are found, made, changed and dropped by their names.

A new kind of catalog is one more module next to ``filesystem`` and one more line in ``pipelines.storage``. It passes
``tests/paimon_table/catalog/test_catalog_contract.py``. Code that reads or writes rows knows tables, not catalogs.
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
        """When the first schema of the table was made; None when it is not there."""
        try:
            return self._schema(0).time_ms
        except FileNotFoundError:
            return None

    def _schema(self, schema_id: int) -> TableSchema:
        path = self.paths.schema_file(schema_id)
        return from_json(self.io.read(path), path)


def present(table: Table | None, name: TableName, warehouse: str) -> Table:
    """The table that ``Catalog.find`` gave; ConfigError when there is none."""
    if table is None:
        raise ConfigError(f"there is no table {name} in warehouse {warehouse}; create it or check the name")
    return table


class Catalog(Protocol):
    """The tables of one warehouse. Belongs to the driver, where several threads may use it: tasks get ``TableContext``.

    Failures of the storage or of a server raise SinkUnavailable or OSError.
    """

    @property
    def warehouse(self) -> str:
        """The name of the whole catalog in messages."""
        ...

    def check(self) -> None:
        """Raise what hinders asking it: it does not answer, or gives no right to. Reads no table."""
        ...

    def names(self, database: str | None = None) -> list[TableName]:
        """The tables that are there, of all databases or of one, always in the same order."""
        ...

    def files(self, name: TableName) -> TableFiles:
        """The location of the table's files; cheaper than ``load``, reads no file."""
        ...

    def publisher(self, name: TableName) -> Publisher:
        """What makes versions of a table that is there visible; every table that the catalog opens holds its own."""
        ...

    def find(self, name: TableName) -> Table | None:
        """The table as of its newest schema, None when there is none. ConfigError when it cannot be written."""
        ...

    def load(self, name: TableName) -> Table:
        """``find`` for a table that has to be there: ConfigError when it is not."""
        ...

    def create(self, name: TableName, schema: TableSchema) -> Table:
        """Make the table with ``schema`` as its first version; ConfigError for a schema that no table can have.

        Safe against others who make it at the same time: a table that is there already is given as it is.
        """
        ...

    def drop(self, name: TableName) -> None:
        """Remove the table with all its files; it must have no writers. Idempotent, also after a drop cut short."""
        ...
