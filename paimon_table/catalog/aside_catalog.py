"""The catalog of a rebuild: the name of the table leads to the branch in which Tidemark rebuilds it."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_table.catalog.catalog import Catalog, TableFiles
from paimon_table.catalog.table_name import TableName
from paimon_table.maintenance.aside_branch import AsideBranch
from paimon_table.metadata.publisher import Publisher
from paimon_table.schema.table_schema import TableSchema
from paimon_table.table import Table


@dataclass(frozen=True, slots=True)
class AsideCatalog:
    """``Catalog``; all tables but one come from ``inner``."""

    inner: Catalog
    name: TableName
    branch: AsideBranch

    @property
    def warehouse(self) -> str:
        return self.inner.warehouse

    def check(self) -> None:
        self.inner.check()

    def names(self, database: str | None = None) -> list[TableName]:
        return self.inner.names(database)

    def files(self, name: TableName) -> TableFiles:
        """The files of the table itself, which has the marks of pipelines."""
        return self.inner.files(name)

    def publisher(self, name: TableName) -> Publisher:
        return self.load(name).publisher

    def find(self, name: TableName) -> Table | None:
        return self.branch.open() if name == self.name else self.inner.find(name)

    def load(self, name: TableName) -> Table:
        return self.branch.open() if name == self.name else self.inner.load(name)

    def create(self, name: TableName, schema: TableSchema) -> Table:
        return self.inner.create(name, schema)

    def drop(self, name: TableName) -> None:
        self.inner.drop(name)
