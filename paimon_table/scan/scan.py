"""Reading the rows of a table at one snapshot: plan splits, prune, read, merge.

Implements Paimon's batch read of primary-key tables. Splits are independent of each other and can be read anywhere; a
split is read in pieces of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.data_files.key_value_file import BATCH_ROWS, iter_key_value_batches
from paimon_table.deletion_vectors.deletion_vector_index import read_vectors
from paimon_table.errors import ConfigError, MalformedRecord, UnsupportedFeature
from paimon_table.merge.function import MergeFunction, merge_function, without_retracts
from paimon_table.merge.sort import KeyOrder
from paimon_table.merge.superseded import without_superseded
from paimon_table.mergetree.run_chunks import joined, run_chunks
from paimon_table.mergetree.sections import Run, Section
from paimon_table.metadata.bucket_id import POSTPONED, BucketId
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.index_file import DELETION_VECTORS
from paimon_table.metadata.index_manifest import IndexEntry
from paimon_table.metadata.snapshot import Snapshot
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import TableState, load_state
from paimon_table.options.reading_options import reading_options
from paimon_table.options.table_options import TableOptions
from paimon_table.scan.index_pruning import matching_sections
from paimon_table.scan.pruning import (
    ANYTHING,
    key_guarantee,
    may_match,
    partition_guarantee,
    ranged_columns_only,
    referenced_columns,
    value_guarantee,
)
from paimon_table.scan.splits import Split, split_bucket
from paimon_table.schema.table_schema import TableSchema
from paimon_table.table import Table
from paimon_table.types import arrow_schema


def read_table(
    table: Table,
    columns: Sequence[str] | None = None,
    predicate: pc.Expression | None = None,
    snapshot_id: int | None = None,
    timestamp_ms: int | None = None,
) -> Iterator[pa.Table]:
    """The rows of a snapshot (default: the latest) in pieces of bounded size, in no order.

    A snapshot is chosen by its id or as the newest one not after a time; it is read with the schema it was written
    with. ``predicate`` is an Arrow expression over the table's columns; only rows for which it is true are given.
    Raises ConfigError for columns, predicates and snapshots that do not fit the table, before anything is read.
    """
    scan, state = _at_snapshot(table, columns, predicate, snapshot_id, timestamp_ms)
    return (rows for split in scan.plan(state) for rows in scan.read(split))


def read_all(
    table: Table,
    columns: Sequence[str] | None = None,
    predicate: pc.Expression | None = None,
    snapshot_id: int | None = None,
    timestamp_ms: int | None = None,
) -> pa.Table:
    """Like ``read_table``, as one table; needs memory for all of it."""
    scan, state = _at_snapshot(table, columns, predicate, snapshot_id, timestamp_ms)
    pieces = (rows for split in scan.plan(state) for rows in scan.read(split))
    return pa.concat_tables([scan.arrow_schema.empty_table(), *pieces])


@dataclass(frozen=True, slots=True)
class TableScan:
    """What is read from each split. Can be pickled; reading works on driver and executors."""

    ctx: TableContext
    columns: tuple[str, ...]
    predicate: pc.Expression | None
    tested: tuple[str, ...]
    """Columns that the predicate needs."""

    @staticmethod
    def make(
        ctx: TableContext, columns: Sequence[str] | None = None, predicate: pc.Expression | None = None
    ) -> TableScan:
        """A scan of the columns (default: all); ConfigError for columns and predicates that do not fit the table."""
        tested = () if predicate is None else referenced_columns(predicate, ctx.schema.arrow_schema)
        return TableScan(ctx, checked_columns(ctx.schema, columns), predicate, tested)

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that the result and the predicate need."""
        return tuple(dict.fromkeys((*self.columns, *self.tested)))

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of the rows that come out."""
        return arrow_schema([self.ctx.schema.field(name) for name in self.columns])

    # ------------------------------------------------------------ planning

    def plan(self, state: TableState) -> tuple[Split, ...]:
        """The splits that can hold matching rows; key and partition ranges prune before the merge, values after it."""
        refuse_unreadable(self.ctx.schema, self.ctx.options, state.index)
        deletion_files = state.deletion_files()
        key_of = KeyOrder(self.ctx.schema, self.ctx.options).file_key
        splits: list[Split] = []
        for bucket in self._matching_buckets([bucket for bucket in state.files if bucket.bucket != POSTPONED]):
            files = self._matching_files(self._visible_files(state.files[bucket]))
            splits += split_bucket(
                bucket,
                files,
                key_of,
                deletion_files=deletion_files.get(bucket, ()),
                keys_are_unique=self.ctx.options.upper_keys_are_unique,
            )
        return self._without_unmatched_values(splits)

    def _matching_buckets(self, buckets: Sequence[BucketId]) -> list[BucketId]:
        if not set(self.tested) & set(self.ctx.schema.partition_keys):
            return list(buckets)
        partitions = {bucket.partition: partition_guarantee(bucket, self.ctx.schema) for bucket in buckets}
        kept = self._may_match(list(partitions.values()))
        matching = {partition for partition, keep in zip(partitions, kept, strict=True) if keep}
        return [bucket for bucket in buckets if bucket.partition in matching]

    def _visible_files(self, files: Sequence[DataFileMeta]) -> Sequence[DataFileMeta]:
        return [file for file in files if file.level > 0] if self.ctx.options.hides_level0 else files

    def _matching_files(self, files: Sequence[DataFileMeta]) -> list[DataFileMeta]:
        if not set(self.tested) & set(self.ctx.schema.trimmed_primary_keys):
            return list(files)
        kept = self._may_match([key_guarantee(file, self.ctx.schema) for file in files])
        return [file for file, keep in zip(files, kept, strict=True) if keep]

    def _without_unmatched_values(self, splits: Sequence[Split]) -> tuple[Split, ...]:
        """Drop files by their value ranges where no other file can hold another version of their keys."""
        if not self.tested:
            return tuple(splits)
        alone = [section[0][0] for split in splits for section in split.sections if _is_alone(section)]
        kept = self._may_match([self._value_guarantee(file) for file in alone])
        gone = {file.file_name for file, keep in zip(alone, kept, strict=True) if not keep}
        left = [replace(split, sections=tuple(s for s in split.sections if not _is_in(s, gone))) for split in splits]
        return tuple(split for split in left if split.sections)

    def _value_guarantee(self, file: DataFileMeta) -> pc.Expression:
        written = self.ctx.schemas.get(file.schema_id)
        return ANYTHING if written is None else value_guarantee(file, self.ctx.schema, written)

    def _may_match(self, guarantees: Sequence[pc.Expression]) -> list[bool]:
        return may_match(self.predicate, guarantees, self.ctx.schema.arrow_schema)

    # ------------------------------------------------------------ reading

    def read(self, split: Split) -> Iterator[pa.Table]:
        """The matching rows of a split, in pieces of bounded size, in key order."""
        reader = _SplitReader(self, split)
        directory = self.ctx.bucket_dir(split.bucket)
        for section in matching_sections(self.ctx, directory, split.sections, self.predicate, self.tested):
            pieces = reader.run(section[0]) if len(section) == 1 else reader.merged(section)
            for rows in pieces:
                live = without_retracts(rows)
                found = live if self.predicate is None else live.filter(self.predicate)
                if found.num_rows:
                    yield found.select(list(self.columns))


def _is_alone(section: Section) -> bool:
    """Whether the section is a single file, whose keys no other file of the bucket holds."""
    return len(section) == 1 and len(section[0]) == 1


def _is_in(section: Section, names: set[str]) -> bool:
    return _is_alone(section) and section[0][0].file_name in names


class _SplitReader:
    """Reads the files of one split without the rows that deletion vectors mark."""

    def __init__(self, scan: TableScan, split: Split) -> None:
        ctx = scan.ctx
        self._ctx = ctx
        self._needed = scan.needed
        ranged = ranged_columns_only(ctx.schema, scan.tested)
        is_about_keys = set(scan.tested) <= set(ctx.schema.trimmed_primary_keys)
        self._raw_predicate = scan.predicate if ranged else None
        self._merge_predicate = scan.predicate if ranged and is_about_keys else None
        """Left-out row groups may hold old versions of a key only if all of its versions are left out."""
        self._directory = ctx.bucket_dir(split.bucket)
        self._partition = ctx.partition_values(split.bucket.partition)
        names = [file.file_name for file in split.files]
        self._deleted = read_vectors(ctx.io, ctx.paths, split.deletion_files, names)
        self._order = KeyOrder(ctx.schema, ctx.options)
        self._function: MergeFunction = merge_function(ctx.schema, ctx.options)

    def run(self, run: Run) -> Iterator[pa.Table]:
        """Rows that need no merge: a key with one row passes through every merge engine."""
        for file in run:
            yield from self._batches(file, self._needed, BATCH_ROWS, self._raw_predicate)

    def merged(self, section: Section) -> Iterator[pa.Table]:
        schema, options = self._ctx.schema, self._ctx.options
        needed = self._function.needed_columns(self._needed)
        names = tuple(dict.fromkeys((*schema.trimmed_primary_keys, *options.sequence_fields, *needed)))

        def read(file: DataFileMeta, batch_rows: int) -> Iterator[pa.Table]:
            return self._batches(file, names, batch_rows, self._merge_predicate)

        for pieces in run_chunks(section, read, self._order):
            rows, levels = joined(pieces)
            del pieces
            groups = self._order.sort(rows)
            if options.upper_rows_are_whole:
                groups = without_superseded(groups, levels)
            try:
                merged = self._function.merge(rows, groups)
            except MalformedRecord as error:
                raise error.told(f"table {self._ctx.paths.root}: {error}") from error
            yield merged

    def _batches(
        self, file: DataFileMeta, names: Sequence[str], batch_rows: int, predicate: pc.Expression | None
    ) -> Iterator[pa.Table]:
        deleted = self._deleted.get(file.file_name)
        return iter_key_value_batches(
            self._ctx, self._directory, file, names, self._partition, batch_rows, predicate, deleted
        )


# ---------------------------------------------------------------- what is read


def refuse_unreadable(schema: TableSchema, options: TableOptions, index: Sequence[IndexEntry]) -> None:
    """UnsupportedFeature for tables whose rows Tidemark would read wrongly; ``index`` is that of the snapshot."""
    merge_function(schema, options)
    unknown = sorted({entry.file.index_type for entry in index} - {DELETION_VECTORS})
    if unknown:
        raise UnsupportedFeature(
            f"the table has index files of type {', '.join(unknown)} (HASH: dynamic buckets), which Tidemark does not "
            "know yet; read the table with Paimon's own readers"
        )


def checked_columns(schema: TableSchema, columns: Sequence[str] | None) -> tuple[str, ...]:
    """The requested columns, all of them by default; ConfigError for unknown names."""
    return schema.column_names if columns is None else tuple(schema.field(name).name for name in columns)


def _snapshot(table: Table, snapshot_id: int | None, timestamp_ms: int | None) -> Snapshot | None:
    snapshots = table.snapshots
    if snapshot_id is not None and timestamp_ms is not None:
        raise ConfigError("both a snapshot id and a timestamp were given; choose the snapshot by one of them")
    if snapshot_id is not None:
        found = snapshots.find(snapshot_id)
        if found is None:
            earliest, latest = snapshots.earliest_id(), snapshots.latest_id()
            raise ConfigError(
                f"{table.paths.root} has no snapshot {snapshot_id}; it has the snapshots {earliest} to {latest}"
            )
        return found
    if timestamp_ms is not None:
        found = snapshots.at_or_before(timestamp_ms)
        if found is None:
            raise ConfigError(_too_early(table, timestamp_ms))
        return found
    return snapshots.latest()


def _at_snapshot(
    table: Table,
    columns: Sequence[str] | None,
    predicate: pc.Expression | None,
    snapshot_id: int | None,
    timestamp_ms: int | None,
) -> tuple[TableScan, TableState]:
    """The latest schema for the latest state; for time travel the schema of the snapshot."""
    snapshot = _snapshot(table, snapshot_id, timestamp_ms)
    ctx = table.context
    travels = snapshot_id is not None or timestamp_ms is not None
    if travels and snapshot is not None and snapshot.schema_id != ctx.schema.id:
        schema = table.context.schemas[snapshot.schema_id]
        ctx = replace(ctx, schema=schema, options=reading_options(schema))
    return TableScan.make(ctx, columns, predicate), load_state(table.io, table.paths, snapshot)


def _too_early(table: Table, timestamp_ms: int) -> str:
    earliest = table.snapshots.earliest_id()
    text = f"{table.paths.root} has no snapshot at or before {_iso(timestamp_ms)}"
    if earliest is None:
        return f"{text}: it has none at all"
    return f"{text}; its earliest one is of {_iso(table.snapshots.read(earliest).time_ms)}: choose a later time"


def _iso(time_ms: int) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms since 1970"
