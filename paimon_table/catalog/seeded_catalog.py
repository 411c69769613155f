"""The catalog of a trial over existing tables: each is opened with the schemas of the real table, and no rows.

The real catalog is only read. All tables that a trial creates or changes are in its own warehouse.
"""

from __future__ import annotations

from dataclasses import dataclass

from paimon_table.catalog.catalog import Catalog, TableFiles
from paimon_table.catalog.table_name import TableName
from paimon_table.metadata.publisher import Publisher
from paimon_table.schema.table_schema import TableSchema
from paimon_table.table import Table


@dataclass(frozen=True, slots=True)
class SeededCatalog:
    """``Catalog``: tables of ``own`` first, then the schemas of tables of ``real``."""

    own: Catalog
    real: Catalog

    @property
    def warehouse(self) -> str:
        return self.real.warehouse

    def check(self) -> None:
        self.real.check()

    def names(self, database: str | None = None) -> list[TableName]:
        return self.own.names(database)

    def files(self, name: TableName) -> TableFiles:
        return self.own.files(name)

    def publisher(self, name: TableName) -> Publisher:
        return self.own.publisher(name)

    def find(self, name: TableName) -> Table | None:
        found = self.own.find(name)
        return found or self._seeded(name)

    def load(self, name: TableName) -> Table:
        return self.find(name) or self.own.load(name)

    def create(self, name: TableName, schema: TableSchema) -> Table:
        return self.own.create(name, schema)

    def drop(self, name: TableName) -> None:
        self.own.drop(name)

    def _seeded(self, name: TableName) -> Table | None:
        """The table with all versions of its schema, copied; None if the real warehouse does not have it."""
        real = self.real.find(name)
        if real is None:
            return None
        copy = self.own.files(name)
        for schema_id in sorted(real.context.schemas):
            copy.io.write(copy.paths.schema_file(schema_id), real.io.read(real.paths.schema_file(schema_id)))
        return self.own.load(name)
