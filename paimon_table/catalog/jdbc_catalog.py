"""Paimon's JDBC catalog: a database has the names of the tables, a warehouse of files has all the rest.

Implements the tables ``paimon_tables`` and ``paimon_database_properties`` of Java's JdbcCatalog, and its lock
(``paimon_distributed_locks``). In an object store Java checks that a snapshot or a schema does not exist and then
writes it, which is safe only while all writers hold this lock. So Tidemark publishes under it too. On a disk both
publish atomically without it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from paimon_table.catalog.catalog import TableFiles, present
from paimon_table.catalog.filesystem import FilesystemCatalog
from paimon_table.catalog.jdbc_database import JdbcDatabase
from paimon_table.catalog.table_name import TableName, check_name
from paimon_table.errors import ConfigError, SinkUnavailable, TidemarkError
from paimon_table.metadata.manifest import ManifestEntry
from paimon_table.metadata.paths import TablePaths
from paimon_table.metadata.publisher import FilePublisher, Publisher
from paimon_table.metadata.snapshot import Snapshot
from paimon_table.patience import Patience
from paimon_table.schema.table_schema import TableSchema
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.table import Table

log = logging.getLogger(__name__)

_NAME = "VARCHAR(255) NOT NULL"
_TABLES = (
    f"CREATE TABLE paimon_tables(catalog_key {_NAME}, database_name {_NAME}, table_name {_NAME},"
    " PRIMARY KEY (catalog_key, database_name, table_name))"
)
_DATABASES = (
    f"CREATE TABLE paimon_database_properties(catalog_key {_NAME}, database_name {_NAME}, property_key VARCHAR(255),"
    " property_value VARCHAR(1000), PRIMARY KEY (catalog_key, database_name, property_key))"
)
_LOCKS = (
    f"CREATE TABLE paimon_distributed_locks(lock_id {_NAME},"
    " acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL, expire_time_seconds BIGINT DEFAULT 0 NOT NULL,"
    " PRIMARY KEY (lock_id))"
)
_LOCK_S = 480
"""How long a lock holds if its holder dies, and how long to wait for one: Java's default."""
_PATIENCE = Patience(0.1, 8.0, max_elapsed_s=_LOCK_S)


@dataclass(frozen=True, slots=True)
class JdbcCatalog:
    """``Catalog`` of the names under ``key`` in a database, with tables in the warehouse of ``files``."""

    database: JdbcDatabase
    files_of_tables: FilesystemCatalog
    key: str = "jdbc"
    locks: bool = False
    """Whether to publish under Java's lock."""
    sleep_s: Callable[[float], None] = time.sleep

    @property
    def warehouse(self) -> str:
        return self.files_of_tables.warehouse

    def check(self) -> None:
        self.names()

    def names(self, database: str | None = None) -> list[TableName]:
        """Without views and tables of other formats, which have no schema among the files."""
        found = self.database.rows(
            "SELECT database_name, table_name FROM paimon_tables WHERE catalog_key = ?", self.key
        )
        return self.files_of_tables.existing(sorted(TableName(*row) for row in found if database in (None, row[0])))

    def files(self, name: TableName) -> TableFiles:
        """For a name that the catalog does not have, a location without files."""
        files = self.files_of_tables.files(name)
        return files if self._has(name) else TableFiles(MemoryFileIO(), TablePaths(f"/{name}"))

    def publisher(self, name: TableName) -> Publisher:
        own = self.files_of_tables.publisher(name)
        return _LockedPublisher(own, self, name) if self.locks else own

    def find(self, name: TableName) -> Table | None:
        files = self.files_of_tables.files(name)
        is_named = self._has(name)
        table = self.files_of_tables.find(name)
        if not is_named:
            if table is not None and table.snapshots.latest_id() is not None:
                with suppress(TidemarkError):
                    self._make_tables()  # so that the statement below works
                row = f"('{self.key}', '{name.database}', '{name.table}')"
                raise ConfigError(
                    f"the catalog {self.database.place} does not have table {name}, but {files.paths.root} has its "
                    f"rows. To add the table to the catalog, run INSERT INTO paimon_tables VALUES {row}; else remove "
                    "the directory"
                )
            return None
        if table is None:
            raise ConfigError(
                f"the catalog {self.database.place} has table {name}, but there is no schema in {files.paths.root}. "
                "Check catalog.warehouse and the storage options; if it is a view or a table of another format, write "
                "to another name"
            )
        return table.through(self.publisher(name), files.newest)

    def load(self, name: TableName) -> Table:
        return present(self.find(name), name, self.warehouse)

    def create(self, name: TableName, schema: TableSchema) -> Table:
        """Creates the files, then the name. A process that dies in between leaves a table without rows, which the next
        try names."""
        found = self.find(name)
        if found is not None:
            return found
        self._make_tables()
        with self.locked(name):
            self.files_of_tables.create(name, schema)
            self._name_database(name.database)
            self.database.insert(
                "INSERT INTO paimon_tables (catalog_key, database_name, table_name) VALUES (?, ?, ?)",
                self.key, name.database, name.table,
            )  # fmt: skip
        return self.load(name)

    def drop(self, name: TableName) -> None:
        """Removes the files, then the name, so that an interrupted drop can be repeated."""
        check_name(name)
        if not self._has(name):
            return
        self.files_of_tables.drop(name)
        where = "WHERE catalog_key = ? AND database_name = ? AND table_name = ?"
        for table in ("paimon_table_properties", "paimon_tables"):
            self.database.change(f"DELETE FROM {table} {where}", self.key, name.database, name.table)

    def _has(self, name: TableName) -> bool:
        return bool(
            self.database.rows(
                "SELECT table_name FROM paimon_tables WHERE catalog_key = ? AND database_name = ? AND table_name = ?",
                self.key, name.database, name.table,
            )
        )  # fmt: skip

    def _make_tables(self) -> None:
        for table, statement in (("paimon_tables", _TABLES), ("paimon_database_properties", _DATABASES)):
            self._make_table(table, statement)
        if self.locks:
            self._make_table("paimon_distributed_locks", _LOCKS)

    def _make_table(self, name: str, statement: str) -> None:
        if not self.database.has_table(name):
            try:
                self.database.change(statement)
            except SinkUnavailable:
                if not self.database.has_table(name):  # another process creates it at the same time
                    raise

    def _name_database(self, name: str) -> None:
        """Name a database as Java does: it finds tables only in databases that have properties."""
        insert = (
            "INSERT INTO paimon_database_properties (catalog_key, database_name, property_key, property_value)"
            " VALUES (?, ?, ?, ?)"
        )
        location = self.files_of_tables.files(TableName(name, "t")).paths.root.rpartition("/")[0]
        for key, value in (("exists", "true"), ("location", location)):
            self.database.insert(insert, self.key, name, key, value)

    @contextmanager
    def locked(self, name: TableName) -> Iterator[None]:
        """Hold Java's lock of the table, if this catalog locks. Raises SinkUnavailable if others hold it for long."""
        if not self.locks:
            yield
            return
        lock_id, begun_s, failures = f"{self.key}.{name.database}.{name.table}", time.monotonic(), 0
        while not self._lock(lock_id):
            failures += 1
            wait_s = _PATIENCE.wait_s(failures, time.monotonic() - begun_s)
            if wait_s is None:
                raise SinkUnavailable(
                    f"another writer of table {name} holds the lock {lock_id} in {self.database.place} for more than "
                    f"{_LOCK_S} s. If no writer runs, delete the row from paimon_distributed_locks"
                )
            self.sleep_s(wait_s)
        try:
            yield
        finally:
            try:
                self.database.change("DELETE FROM paimon_distributed_locks WHERE lock_id = ?", lock_id)
            except SinkUnavailable as error:
                log.warning("the lock %s of table %s stays for up to %d s: %s", lock_id, name, _LOCK_S, error)

    def _lock(self, lock_id: str) -> bool:
        seconds = self.database.seconds_of_lock
        self.database.change(
            f"DELETE FROM paimon_distributed_locks WHERE {seconds} > expire_time_seconds AND lock_id = ?", lock_id
        )
        return self.database.insert(
            "INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) VALUES (?, ?)", lock_id, _LOCK_S
        )


@dataclass(frozen=True, slots=True)
class _LockedPublisher:
    """Publishes as ``own`` does, under the lock of the table."""

    own: FilePublisher
    catalog: JdbcCatalog
    name: TableName

    def publish_schema(self, schema: TableSchema) -> bool:
        with self.catalog.locked(self.name):
            return self.own.publish_schema(schema)

    def publish_snapshot(
        self, snapshot: Snapshot, base: Snapshot | None = None, entries: Sequence[ManifestEntry] = ()
    ) -> bool:
        with self.catalog.locked(self.name):
            return self.own.publish_snapshot(snapshot, base, entries)
