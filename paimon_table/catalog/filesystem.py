"""The catalog of Paimon's filesystem warehouses: a table is the directory ``WAREHOUSE/DATABASE.db/TABLE``.

There are only directories: no server needs to learn of a table, a schema or a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paimon_table.catalog.catalog import TableFiles, present
from paimon_table.catalog.table_name import DATABASE_SUFFIX, TableName, check_name
from paimon_table.errors import ConfigError
from paimon_table.metadata.paths import TablePaths
from paimon_table.metadata.publisher import FilePublisher
from paimon_table.metadata.schema_files import schema_ids
from paimon_table.schema.table_schema import TableSchema
from paimon_table.side_by_side import in_parallel, waits_at_once
from paimon_table.storage.file_io import FileIO
from paimon_table.table import Table


@dataclass(frozen=True, slots=True)
class FilesystemCatalog:
    """``Catalog`` over a directory; ``warehouse`` is a path for ``io``, without a trailing slash."""

    io: FileIO
    warehouse: str

    def check(self) -> None:
        """Writers test the storage themselves."""

    def names(self, database: str | None = None) -> list[TableName]:
        found = [
            TableName(name, table)
            for name in (self._databases() if database is None else [database])
            for table in self._names_in(self._database(name))
        ]
        return self.existing(found)

    def existing(self, names: Iterable[TableName]) -> list[TableName]:
        """Those of the names that have a schema, in the order given."""
        looks = in_parallel(self._is_table, names, waits_at_once(self.warehouse))
        return [name for name, is_there in looks if is_there]

    def files(self, name: TableName) -> TableFiles:
        check_name(name)
        return TableFiles(self.io, TablePaths(f"{self._database(name.database)}/{name.table}"))

    def publisher(self, name: TableName) -> FilePublisher:
        return FilePublisher(self.io, self.files(name).paths)

    def find(self, name: TableName) -> Table | None:
        return Table.open_if_exists(self.files(name).paths.root, io=self.io)

    def load(self, name: TableName) -> Table:
        return present(self.find(name), name, self.warehouse)

    def create(self, name: TableName, schema: TableSchema) -> Table:
        return Table.open_or_create(self.files(name).paths.root, lambda: schema, io=self.io)

    def drop(self, name: TableName) -> None:
        """Removes snapshots first and schemas last, so that an interrupted drop leaves a table, which can be dropped
        again.

        Without schemas there would be no table, and a table recreated in its place would find the old snapshots.
        """
        if not self._is_table(name):
            return  # a directory without a schema is not a table
        paths = self.files(name).paths
        children = [f"{paths.root}/{child}" for child in self._names_in(paths.root)]
        for directory in (paths.root, *children):
            if self.io.is_link(directory):
                raise ConfigError(
                    f"{directory} is a symbolic link, and others may use its target: no file of {name} was "
                    "removed. Replace the link by the files, or remove the link and the files yourself"
                )
        for directory in (paths.snapshot_dir, *(c for c in children if c != paths.schema_dir), paths.root):
            self.io.delete_tree(directory)

    def _databases(self) -> list[str]:
        names = self._names_in(self.warehouse)
        return [name.removesuffix(DATABASE_SUFFIX) for name in names if name.endswith(DATABASE_SUFFIX)]

    def _database(self, name: str) -> str:
        return f"{self.warehouse}/{name}{DATABASE_SUFFIX}"

    def _is_table(self, name: TableName) -> bool:
        return bool(schema_ids(self.io, self.files(name).paths))

    def _names_in(self, directory: str) -> list[str]:
        try:
            return self.io.list_names(directory)
        except NotADirectoryError:
            return []
