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
from dataclasses import dataclass, field
from typing import NoReturn

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
_TOLD_EVERY = 8
"""After how many failed looks for a lock the log says it again."""
_ZONE_STEP_S = 900
"""The difference of two time zones is a multiple of it."""


@dataclass(frozen=True, slots=True)
class JdbcCatalog:
    """``Catalog`` of the names under ``key`` in a database, with tables in the warehouse of ``files``."""

    database: JdbcDatabase
    files_of_tables: FilesystemCatalog
    key: str
    locks: bool = False
    """Whether to publish under Java's lock."""
    sleep_s: Callable[[float], None] = time.sleep
    _left: dict[str, float] = field(default_factory=dict, compare=False, repr=False)
    """The locks of this process that it could not release, with the monotonic time at which others may take them."""

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
        if not self._has(name):
            if files.snapshots.latest_id() is not None:
                self._refuse_rows_without_name(name, files.paths.root)
            return None
        table = self.files_of_tables.find(name)
        if table is None:
            raise ConfigError(
                f"the catalog {self.database.place} has table {name}, but there is no schema in {files.paths.root}. "
                "Check catalog.warehouse and the storage options; if it is a view or a table of another format, write "
                "to another name"
            )
        return self._opened(name, table)

    def _opened(self, name: TableName, table: Table) -> Table:
        return table.through(self.publisher(name), table.context.newest)

    def _refuse_rows_without_name(self, name: TableName, root: str) -> NoReturn:
        with suppress(TidemarkError):
            self._make_tables()  # so that the statement works
        row = ", ".join("'" + text.replace("'", "''") + "'" for text in (self.key, name.database, name.table))
        raise ConfigError(
            f"the catalog {self.database.place} does not have table {name}, but {root} has snapshots of a table. To "
            f"add the table to the catalog, run INSERT INTO paimon_tables VALUES ({row}); else remove the directory"
        )

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
            table = self.files_of_tables.create(name, schema)
            self._name_database(name.database)
            self.database.insert(
                "INSERT INTO paimon_tables (catalog_key, database_name, table_name) VALUES (?, ?, ?)",
                self.key, name.database, name.table,
            )  # fmt: skip
        return self._opened(name, table)

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
        """Raises ConfigError if the database has a name that it does not distinguish from this one."""
        found = self.database.rows(
            "SELECT database_name, table_name FROM paimon_tables"
            " WHERE catalog_key = ? AND database_name = ? AND table_name = ?",
            self.key, name.database, name.table,
        )  # fmt: skip
        names = [TableName(*row) for row in found]
        if names and name not in names:
            raise ConfigError(
                f"the database of catalog {self.database.place} does not distinguish table {name} from its table "
                f"{names[0]}; write to a name that differs in more than case and accents"
            )
        return bool(names)

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
        if self._left.pop(lock_id, 0.0) > begun_s:
            self._release(lock_id)
        while not self.tries_lock(lock_id):
            failures += 1
            waited_s = time.monotonic() - begun_s
            wait_s = _PATIENCE.wait_s(failures, waited_s)
            if wait_s is None:
                raise SinkUnavailable(
                    f"another writer of table {name} holds the lock {lock_id} in {self.database.place} for more than "
                    f"{_LOCK_S} s. If no writer runs, delete the row from paimon_distributed_locks"
                )
            if failures % _TOLD_EVERY == 1:
                log.warning(
                    "table %s: another writer holds the lock %s in %s. Tidemark has waited %d s and waits up to %d s;"
                    " the lock of a writer that died ends in this time",
                    *(name, lock_id, self.database.place, waited_s, _LOCK_S),
                )
            self.sleep_s(wait_s)
        held_until_s = time.monotonic() + _LOCK_S
        try:
            yield
        finally:
            try:
                self._release(lock_id)
            except SinkUnavailable as error:
                self._left[lock_id] = held_until_s
                log.warning("table %s: the lock %s stays until the next commit: %s", name, lock_id, error)

    def _release(self, lock_id: str) -> None:
        self.database.change("DELETE FROM paimon_distributed_locks WHERE lock_id = ?", lock_id)

    def tries_lock(self, lock_id: str) -> bool:
        """Take the lock if nobody holds it, or its time is over; returns whether it was taken."""
        insert = "INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) VALUES (?, ?)"
        if self.database.insert(insert, lock_id, _LOCK_S):
            return True
        table = "paimon_distributed_locks WHERE lock_id = ?"
        select = f"SELECT acquired_at, {self.database.lock_age}, expire_time_seconds FROM {table}"
        for acquired_at, age_s, expire_s in self.database.rows(select, lock_id):
            if _has_ended(float(age_s), expire_s):
                self.database.change(f"DELETE FROM {table} AND acquired_at = ?", lock_id, acquired_at)
                return self.database.insert(insert, lock_id, _LOCK_S)
        return False


def _has_ended(age_s: float, expire_s: int) -> bool:
    """Whether a lock has ended. In PostgreSQL a writer in another time zone makes its age wrong by whole quarters of an
    hour, so these do not count: a lock that has ended may seem new once more."""
    return (age_s if expire_s >= _ZONE_STEP_S else age_s % _ZONE_STEP_S) > expire_s


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
