"""The catalog of a server with Paimon's REST API. The server owns names, schemas and the order of snapshots.

The server names the location of a table's files. Tidemark reads and writes them with its own access to the storage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from paimon_table.catalog.catalog import TableFiles, present
from paimon_table.catalog.rest_client import TABLE_DEFAULT_PREFIX, RestClient
from paimon_table.catalog.rest_schema import schema_document
from paimon_table.catalog.rest_table import RestPublisher, ServedTable, ServerSnapshots, table_path
from paimon_table.catalog.table_name import TableName, check_name
from paimon_table.errors import ConfigError, SinkUnavailable, UnsupportedFeature
from paimon_table.metadata.paths import TablePaths
from paimon_table.metadata.publisher import Publisher
from paimon_table.schema.table_schema import TableSchema
from paimon_table.storage.file_io import FileIO
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.table import Table
from paimon_table.validation.table_validation import validate_new_table

_BRANCH = "$"
"""Separates the name of a table from that of its branch."""


@dataclass(frozen=True, slots=True)
class RestCatalog:
    """``Catalog`` of a server; ``storage`` returns access to a location, and the path to use with it."""

    client: RestClient
    storage: Callable[[str], tuple[FileIO, str]]

    @property
    def warehouse(self) -> str:
        return self.client.place

    def check(self) -> None:
        """Request the databases too, because a server may show its options to everybody."""
        next(self.client.pages("databases", "databases"), None)

    def names(self, database: str | None = None) -> list[TableName]:
        databases = [database] if database is not None else list(self.client.pages("databases", "databases"))
        found = [
            TableName(name, str(table))
            for name in map(str, databases)
            for table in self.client.pages("tables", "databases", name, "tables")
        ]
        return sorted(found)

    def files(self, name: TableName) -> TableFiles:
        """The location that the server names; for a table that the server does not have, a location without files."""
        served = self._served(name)
        if served is None:
            return TableFiles(MemoryFileIO(), TablePaths(f"/{name}"))
        return self._files(name, served)

    def publisher(self, name: TableName) -> Publisher:
        return self.load(name).publisher

    def find(self, name: TableName) -> Table | None:
        served = self._served(name)
        if served is None:
            return None
        if served.is_external:
            raise UnsupportedFeature(
                f"table {name} is external, so catalog server {self.warehouse} does not commit to it. Write it with a "
                "catalog of type filesystem, or let the server manage it"
            )
        files = self._files(name, served)
        table = Table.open_line(files.io, files.paths)
        if table is None or served.schema_id not in table.context.schemas:
            raise SinkUnavailable(
                f"the catalog server names {served.path} as the location of table {name}, but schema "
                f"{served.schema_id} is not there. Check that this machine reaches the same storage as the server "
                "(catalog.options)"
            )
        own = table.through(table.publisher, files.newest)
        return own.through(RestPublisher(self.client, name, served.id, own.context), files.newest)

    def load(self, name: TableName) -> Table:
        return present(self.find(name), name, self.warehouse)

    def create(self, name: TableName, schema: TableSchema) -> Table:
        found = self.find(name)
        if found is not None:
            return found
        validate_new_table(schema)
        document: Mapping[str, Any] = {
            "identifier": {"database": name.database, "object": name.table},
            "schema": schema_document(schema, self._table_defaults()),
        }
        # Another process may create both at the same time: then they exist already (409).
        if self.client.post(document, "databases", name.database, "tables").status == 404:
            self.client.post({"name": name.database, "options": {}}, "databases")
            self.client.post(document, "databases", name.database, "tables")
        return self.load(name)

    def drop(self, name: TableName) -> None:
        check_name(name, _BRANCH)
        self.client.delete(*table_path(name))

    def _served(self, name: TableName) -> ServedTable | None:
        check_name(name, _BRANCH)
        return ServedTable.of(self.client.get(*table_path(name)), name)

    def _files(self, name: TableName, served: ServedTable) -> TableFiles:
        try:
            io, root = self.storage(served.path)
        except ConfigError as error:
            raise UnsupportedFeature(
                f"the catalog server names {served.path} as the location of table {name}: {error}"
            ) from error
        return TableFiles(io, TablePaths(root), ServerSnapshots(self.client, name))

    def _table_defaults(self) -> dict[str, str]:
        options = self.client.options
        return {
            option.removeprefix(TABLE_DEFAULT_PREFIX): value
            for option, value in options.items()
            if option.startswith(TABLE_DEFAULT_PREFIX)
        }
