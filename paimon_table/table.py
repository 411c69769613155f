"""A table on storage: opens, creates and evolves a table, and provides the context for executors.

Implements Paimon's schema files: dense ids from 0, each published with fail-if-exists.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.bucket_assignment.bucket_assigner import AssignedRows, assign_all, lane_split
from paimon_table.bucket_assignment.lanes import LaneSplit
from paimon_table.commit.commit import TableCommit
from paimon_table.commit.own_commits import CommitsOfUser, OwnCommits
from paimon_table.compaction.due import due_compactions
from paimon_table.compaction.row_ages import row_ages
from paimon_table.errors import CommitConflict, ConfigError
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.paths import TablePaths
from paimon_table.metadata.publisher import FilePublisher, Publisher
from paimon_table.metadata.schema_files import read_schema, schema_ids
from paimon_table.metadata.snapshot import NewestSnapshot, Snapshot, SnapshotStore
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import BucketState, LiveFiles, TableState, load_state
from paimon_table.options.option_parsing import options_of
from paimon_table.options.reading_options import reading_options
from paimon_table.options.table_options import TableOptions
from paimon_table.scan.changelog_scan import appended_rows, changes_of, read_changes
from paimon_table.scan.scan import TableScan
from paimon_table.scan.splits import Split
from paimon_table.scan.time_travel import as_of, chosen_snapshot, stored_snapshot
from paimon_table.schema.column_defaults import column_defaults
from paimon_table.schema.table_schema import TableSchema
from paimon_table.storage.file_io import FileIO, file_io_for
from paimon_table.surroundings import now_ms, random_uuid
from paimon_table.validation.file_validation import check_key_types
from paimon_table.validation.schema_evolution import SchemaChange, apply_changes
from paimon_table.validation.table_validation import (
    check_partition_names,
    check_takes_rows,
    validate_changed_table,
    validate_new_table,
)
from paimon_table.write.bucket_writer import WriterEnvironment
from paimon_table.write.write_traits import WriteTraits, write_traits
from paimon_table.write.writer import Writer, open_writer

_EVOLVE_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class Table:
    """A table with the schema that was the latest when it was opened."""

    context: TableContext
    """The facts that readers and writers of its files need; has only values."""
    publisher: Publisher
    """Publishes new versions of the table: through the catalog that opened the table, else through its files."""
    follows_scan_options: bool = False
    """Whether ``read`` uses the snapshot that the table's options select, as Paimon's batch readers do."""

    @staticmethod
    def open(path: str, io_options: Mapping[str, str] | None = None, io: FileIO | None = None) -> Table:
        """Open an existing table; raises ConfigError if there is none. ``io`` replaces the storage of the path."""
        storage, root = _storage(path, io_options, io)
        table = _load(storage, TablePaths(root), _writing_options)
        if table is None:
            raise ConfigError(f"there is no table at {path}; create it or check the path")
        return table

    @staticmethod
    def open_for_reading(path: str, io_options: Mapping[str, str] | None = None, io: FileIO | None = None) -> Table:
        """Open a table only for reading: does not check or parse options that matter only to writers.

        If the table's options select a snapshot (``scan.snapshot-id``, ``scan.tag-name``, ``scan.version``,
        ``scan.timestamp-millis``), a read without a choice returns the rows of that snapshot. Do not write through this
        table, because it ignores options of writers. Raises ConfigError if there is no table.
        """
        storage, root = _storage(path, io_options, io)
        table = _load(storage, TablePaths(root), reading_options)
        if table is None:
            raise ConfigError(f"there is no table at {path}; check the path")
        return replace(table, follows_scan_options=True)

    @staticmethod
    def open_if_exists(
        path: str, io_options: Mapping[str, str] | None = None, io: FileIO | None = None
    ) -> Table | None:
        """Open the table at ``path``; None if there is none."""
        storage, root = _storage(path, io_options, io)
        return _load(storage, TablePaths(root), _writing_options)

    @staticmethod
    def open_line(io: FileIO, paths: TablePaths) -> Table | None:
        """Open the table with schemas and snapshots at these paths, such as a branch; None if there is no schema."""
        return _load(io, paths, _writing_options)

    @staticmethod
    def create(
        path: str, schema: TableSchema, io_options: Mapping[str, str] | None = None, io: FileIO | None = None
    ) -> Table:
        """Create a table with schema 0. Safe if several processes create it at the same time: the later ones open the
        first one's table.

        Also opens an existing table with the same columns, keys and options; raises ConfigError for another one.
        """
        validate_new_table(schema)
        table = Table.open_or_create(path, lambda: schema, io_options, io)
        difference = _difference(schema, table.schema)
        if difference is not None:
            raise ConfigError(
                f"a table with other {difference} exists at {path}; use that table or choose another path"
            )
        return table

    @staticmethod
    def open_or_create(
        path: str,
        schema: Callable[[], TableSchema],
        io_options: Mapping[str, str] | None = None,
        io: FileIO | None = None,
    ) -> Table:
        """Open the table, or create it with the given schema 0 if there is none."""
        storage, root = _storage(path, io_options, io)
        paths = TablePaths(root)
        existing = _load(storage, paths, _writing_options)
        if existing is not None:
            return existing
        first = schema()
        validate_new_table(first)
        FilePublisher(storage, paths).publish_schema(first)
        return Table.open(path, io_options, io)

    def through(self, publisher: Publisher, newest: NewestSnapshot | None) -> Table:
        """The same table with another publisher than its files."""
        return replace(self, publisher=publisher, context=replace(self.context, newest=newest))

    @property
    def io(self) -> FileIO:
        return self.context.io

    @property
    def paths(self) -> TablePaths:
        return self.context.paths

    @property
    def schema(self) -> TableSchema:
        return self.context.schema

    @property
    def options(self) -> TableOptions:
        return self.context.options

    @property
    def created_ms(self) -> int:
        """The creation time of its first schema, which no change of the table removes."""
        return self.context.schemas[min(self.context.schemas)].time_ms

    @property
    def snapshots(self) -> SnapshotStore:
        return self.context.snapshots

    def state(self, snapshot: Snapshot | None = None) -> TableState:
        """The files of a snapshot, by default of the latest one; read from its manifests."""
        return load_state(self.io, self.paths, snapshot or self.snapshots.latest())

    # ------------------------------------------------------------ reading

    def read(
        self,
        columns: Sequence[str] | None = None,
        predicate: pc.Expression | None = None,
        snapshot_id: int | None = None,
        timestamp_ms: int | None = None,
        snapshot: Snapshot | None = None,
    ) -> Iterator[pa.Table]:
        """The rows of a snapshot in pieces of bounded size, in no order.

        Choose the snapshot by its id, by a time (the newest one not after it), or pass it, such as the snapshot of a
        tag. Rows have the schema of the snapshot. The default is the latest snapshot, or see ``open_for_reading``.
        ``predicate`` is an Arrow expression over the table's columns; only rows for which it is true are returned.
        Before reading, raises ConfigError for columns, predicates and snapshots that do not fit the table.
        """
        return self._read(columns, predicate, snapshot_id, timestamp_ms, snapshot)[1]

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        predicate: pc.Expression | None = None,
        snapshot_id: int | None = None,
        timestamp_ms: int | None = None,
        snapshot: Snapshot | None = None,
    ) -> pa.Table:
        """Like ``read``, as one table; needs memory for the whole table."""
        schema, pieces = self._read(columns, predicate, snapshot_id, timestamp_ms, snapshot)
        return pa.concat_tables([schema.empty_table(), *pieces])

    def _read(
        self,
        columns: Sequence[str] | None,
        predicate: pc.Expression | None,
        snapshot_id: int | None,
        timestamp_ms: int | None,
        snapshot: Snapshot | None,
    ) -> tuple[pa.Schema, Iterator[pa.Table]]:
        if snapshot is None and snapshot_id is None and timestamp_ms is None and self.follows_scan_options:
            snapshot = self.stored_snapshot()
        if snapshot is None:
            chosen, ctx = chosen_snapshot(self.context, snapshot_id, timestamp_ms)
        else:
            chosen, ctx = as_of(self.context, snapshot)
        scan = TableScan.make(ctx, columns, predicate)
        splits = scan.plan(chosen)
        return scan.arrow_schema, (rows for split in splits for rows in scan.read(split))

    def stored_snapshot(self) -> Snapshot | None:
        """The snapshot that the table's options select for readers: see the function of that name."""
        return stored_snapshot(self.context)

    def plan(self, predicate: pc.Expression | None = None) -> tuple[Split, ...]:
        """The splits of the latest snapshot that ``read`` would read."""
        return TableScan.make(self.context, None, predicate).plan(self.snapshots.latest())

    def changes(
        self, from_snapshot: int | None = None, to_snapshot: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[Snapshot, pa.Table]]:
        """The changelog, snapshot by snapshot: see ``read_changes``."""
        return read_changes(self.context, from_snapshot, to_snapshot, columns)

    def changes_of(self, snapshot: Snapshot, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The changes of one snapshot in pieces of bounded size."""
        return changes_of(self.context, snapshot, columns)

    def appended_rows(self, snapshot: Snapshot, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows that one APPEND snapshot has written, unmerged and with their kinds, in pieces of bounded size."""
        return appended_rows(self.context, snapshot, columns)

    # ------------------------------------------------------------ writing

    def new_commit(
        self,
        user: str,
        *,
        clock_ms: Callable[[], int] = now_ms,
        new_uuid: Callable[[], str] = random_uuid,
        on_step: Callable[[str], None] | None = None,
        on_attempt: Callable[[], None] | None = None,
        is_new_user: bool = False,
        after: int = 0,
        own: OwnCommits | None = None,
        before: TableCommit | None = None,
    ) -> TableCommit:
        """A committer for ``user``, which numbers its commits.

        ``before`` is the committer of the same user, under another schema, that it replaces.

        ``is_new_user``: this user has never committed, so no existing snapshot belongs to the user. ``after``: the
        search ignores snapshots up to this one. ``own`` finds the commits in the table, instead of a search for the
        user's snapshots and identifiers.
        """
        return TableCommit(
            self.context,
            self.publisher,
            user,
            clock_ms,
            new_uuid,
            on_step=on_step,
            on_attempt=on_attempt,
            own=own or CommitsOfUser(self.snapshots, self.paths.root, user, is_new_user=is_new_user, after=after),
            before=before,
        )

    def lanes(self, live: LiveFiles) -> LaneSplit:
        """The split of a batch's rows among the tasks that write them, on top of the ``live`` files."""
        return lane_split(self.schema, self.options, live)

    def assign(self, rows: pa.Table, live: LiveFiles, environment: WriterEnvironment) -> AssignedRows:
        """The rows by bucket, for one process that writes all buckets on top of the ``live`` files."""
        return assign_all(self.context, rows, live, environment)

    @property
    def write_traits(self) -> WriteTraits:
        """How the table treats arriving rows."""
        return write_traits(self.context)

    def due_compactions(
        self, state: TableState, *, fully: bool, is_appended: bool, clock_ms: Callable[[], int] = now_ms
    ) -> tuple[BucketId, ...]:
        """The buckets to compact even without new rows: see the function of that name."""
        ages = row_ages(self.context, clock_ms())
        return due_compactions(state, self.options, fully=fully, is_appended=is_appended, ages=ages)

    def bucket_writer(self, bucket: BucketId, state: BucketState, environment: WriterEnvironment) -> Writer:
        """A writer of one bucket that continues from ``state``; its messages are for ``TableCommit.commit``.

        Raises ConfigError for a table that Tidemark cannot write, see ``check_takes_rows``.
        """
        check_takes_rows(self.schema, self.paths.root)
        return open_writer(self.context, bucket, state, environment)

    def refreshed(self) -> Table:
        """The table with the schema versions that others have published; itself if there are none."""
        if not self.io.exists(self.paths.schema_file(self.schema.id + 1)):
            return self
        return self._opened_again()

    def evolve(self, changes: Sequence[SchemaChange], time_ms: int, *, rows_fit: bool = False) -> Table:
        """Publish the next schema version; returns itself if the latest one already has the changes.

        ``rows_fit``: the caller guarantees that stored rows match the changed options. This allows changes that are
        otherwise refused for a table with rows. If another process publishes a version first, the changes are applied
        again to that version.
        """
        table = self.refreshed()
        for _ in range(_EVOLVE_ATTEMPTS):
            evolved = apply_changes(
                table.schema, changes, time_ms, has_snapshots=not rows_fit and table.snapshots.latest_id() is not None
            )
            if evolved is table.schema:
                return table
            validate_changed_table(evolved, table.schema)
            if table.publisher.publish_schema(evolved):
                return table._opened_again()
            table = table.refreshed()
        raise CommitConflict(
            f"other writers keep changing the schema of {self.paths.root}; nothing was changed: retry later"
        )

    def _opened_again(self) -> Table:
        table = _load(self.io, self.paths, _writing_options)
        if table is None:
            raise ConfigError(f"{self.paths.schema_dir} has no schemas any longer: the table was dropped")
        return table.through(self.publisher, self.context.newest)


def _storage(path: str, io_options: Mapping[str, str] | None, io: FileIO | None) -> tuple[FileIO, str]:
    named = os.fspath(path)
    return (io, named.rstrip("/")) if io is not None else file_io_for(named, io_options)


def _load(io: FileIO, paths: TablePaths, options_of: Callable[[TableSchema], TableOptions]) -> Table | None:
    """Read all schema versions; None if there is no schema file."""
    ids = schema_ids(io, paths)
    if not ids:
        return None
    schemas = {schema_id: read_schema(io, paths, schema_id) for schema_id in ids}
    latest = schemas[ids[-1]]
    try:
        options = options_of(latest)
    except ConfigError as error:
        raise type(error)(f"table {paths.root}: {error}") from error
    return Table(TableContext(io, paths, latest, options, schemas), FilePublisher(io, paths))


def _writing_options(schema: TableSchema) -> TableOptions:
    """The options for writers; raises ConfigError for a table that Tidemark would not write correctly."""
    options = options_of(schema)
    column_defaults(schema)
    check_key_types(schema, options)
    check_partition_names(schema)
    return options


def _difference(wanted: TableSchema, existing: TableSchema) -> str | None:
    for what, left, right in (
        ("columns", wanted.fields, existing.fields),
        ("primary key", wanted.primary_keys, existing.primary_keys),
        ("partition columns", wanted.partition_keys, existing.partition_keys),
        ("options", dict(wanted.options), dict(existing.options)),
    ):
        if left != right:
            return what
    return None
