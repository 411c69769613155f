"""Drives a table through the engine as the sink does, without Spark: rows with kinds in, contents and changes out.

Rows are ``[kind, values...]`` in the plain form of ``tests.support.plain_values``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from paimon_table.bucket_assignment.bucket_assigner import AssignedRows
from paimon_table.commit.commit import TableCommit
from paimon_table.commit.delta import CommitResult
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.postponed import compact_postponed
from paimon_table.metadata.bucket_id import POSTPONED, BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import LiveFiles, TableState
from paimon_table.row_kind import VALUE_KIND, RowKind
from paimon_table.rows.binary_row import deserialize_row, serialize_row_at
from paimon_table.schema.table_schema import create_schema
from paimon_table.storage.file_io import FileIO
from paimon_table.surroundings import now_ms
from paimon_table.table import Table
from paimon_table.types import DataType, parse_type
from paimon_table.validation.schema_evolution import SchemaChange
from paimon_table.write.bucket_count import check_bucket_count
from paimon_table.write.bucket_writer import WriterEnvironment
from paimon_table.write.overwrite_writer import OverwriteWriter
from paimon_table.write.writer import Writer, open_writer
from tests.support.plain_values import Plain, rows_arrow, rows_plain, sorted_rows

KINDS: Mapping[str, RowKind] = {kind.short: kind for kind in RowKind}


@dataclass(frozen=True, slots=True)
class SnapshotChanges:
    """The changelog rows of one snapshot."""

    snapshot_id: int
    rows: list[list[Plain]]


def new_table(
    path: Path | str,
    columns: Sequence[tuple[str, DataType | str]],
    primary_key: Sequence[str],
    partition_by: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    io: FileIO | None = None,
) -> Table:
    """Create a table, in one bucket unless the options say otherwise; ``io`` can be a disk in memory."""
    typed = [(name, parse_type(t) if isinstance(t, str) else t) for name, t in columns]
    schema = create_schema(typed, primary_key, partition_by, {"bucket": "1", **(options or {})})
    return Table.create(str(path), schema, io=io)


def _with_write_only(context: TableContext, write_only: bool) -> TableContext:
    return replace(context, options=replace(context.options, write_only=write_only))


def _messages(buckets: Iterable[BucketId], message: Callable[[BucketId], CommitMessage | None]) -> list[CommitMessage]:
    messages = [message(bucket) for bucket in sorted(buckets, key=lambda b: (b.partition, b.bucket))]
    return [message for message in messages if message is not None]


class TableDriver:
    """One writer of one table. ``keeps_writers`` keeps the bucket writers from commit to commit."""

    def __init__(
        self,
        table: Table,
        lookup_dir: Path,
        commit_user: str = "driver",
        first_identifier: int = 1,
        keeps_writers: bool = False,
        write_only: bool = False,
        after: int = 0,
    ) -> None:
        """``after``: no commit of this driver is in the snapshots up to this one, as a pipeline would know."""
        self.table = table
        self._environment = WriterEnvironment(str(lookup_dir))
        self._commit_user = commit_user
        self._identifiers = itertools.count(first_identifier)
        self._keeps_writers = keeps_writers
        self._write_only = write_only
        self._after = after
        self._writers: dict[BucketId, Writer] = {}

    # ------------------------------------------------------------ writing

    def commit(self, rows: Iterable[Sequence[Plain]], full_compact: bool = False) -> CommitResult:
        """Write the rows in one commit; ``full_compact`` ends it with a full compaction of every bucket."""
        return self.commit_arrow(self.arrow(rows), full_compact)

    def arrow(self, rows: Iterable[Sequence[Plain]]) -> pa.Table:
        """The rows as bucket writers take them."""
        rows = list(rows)
        values = rows_arrow([row[1:] for row in rows], self.table.schema.fields)
        return values.append_column(VALUE_KIND, pa.array([KINDS[row[0]] for row in rows], pa.int8()))

    def commit_arrow(self, rows: pa.Table, full_compact: bool = False) -> CommitResult:
        """Like ``commit``, for value columns in table order followed by ``_VALUE_KIND``."""
        state = self.state()
        assigned = self.table.assign(rows, state.live_files(), self._environment)
        groups = assigned.buckets
        buckets = {*groups, *(state.files if full_compact else ())}
        for partition in {bucket.partition for bucket in groups}:
            check_bucket_count(self._context(), partition, state.total_buckets.get(partition))

        def message(bucket: BucketId) -> CommitMessage:
            writer = self._writer(bucket, state)
            if bucket in groups:
                writer.write(groups[bucket])
            message = writer.prepare_commit(full_compact=full_compact)
            return assigned.noted(message) if bucket in groups else message

        return self._publish(buckets, message, assigned)

    def compact(self) -> CommitResult:
        """A commit of nothing but a full compaction of every bucket; of a write-only table as a job of its own."""
        if any(bucket.bucket == POSTPONED for bucket in self.state().files):
            compact_postponed(self.table, Job(self._environment), lambda _: True, fully=True)
            self._writers.clear()
        state = self.state()
        if self._context().options.write_only:
            # Writers that do not compact would not learn of it.
            self._writers.clear()
            context = _with_write_only(self._context(), False)
            writers = {bucket: self._new_writer(context, bucket, state) for bucket in state.files}
            return self._publish(state.files, lambda bucket: writers[bucket].compact_only(full_compact=True))
        return self._publish(state.files, lambda bucket: self._writer(bucket, state).compact_only(full_compact=True))

    def overwrite(
        self, rows: Iterable[Sequence[Plain]], partition: Mapping[str, Plain] | None = None, full_compact: bool = False
    ) -> CommitResult:
        """INSERT OVERWRITE of a static partition, or else of the partitions of the rows or of the whole table."""
        assigned = self.table.assign(self.arrow(rows), LiveFiles(), self._environment)
        groups = assigned.buckets

        def message(bucket: BucketId) -> CommitMessage | None:
            writer = OverwriteWriter(self._context(), bucket, self._environment)
            writer.write(groups[bucket])
            message = writer.prepare(full_compact=full_compact)
            return None if message is None else assigned.noted(message)

        self._writers.clear()
        return self._commit().overwrite(
            next(self._identifiers), _messages(groups, message), {}, self._partition_values(partition or {})
        )

    def _partition_values(self, partition: Mapping[str, Plain]) -> dict[str, object]:
        """The values as the engine takes them; columns that are not partition columns are left for it to refuse."""
        fields = [f for f in self.table.schema.fields if f.name in partition]
        if not fields:
            return dict(partition)
        row = rows_arrow([[partition[f.name] for f in fields]], fields)
        types = [f.type for f in fields]
        values = deserialize_row(serialize_row_at(row.columns, types, 0), types)
        return {**partition, **{f.name: value for f, value in zip(fields, values, strict=True)}}

    def _publish(
        self,
        buckets: Iterable[BucketId],
        message: Callable[[BucketId], CommitMessage],
        assigned: AssignedRows | None = None,
    ) -> CommitResult:
        messages = _messages(buckets, message)
        if assigned is not None:
            messages += assigned.others()
            assigned.appended(messages)
        result = self._commit().commit(next(self._identifiers), messages, {})
        if not self._keeps_writers:
            self._writers.clear()
        return result

    def _commit(self) -> TableCommit:
        return self.table.new_commit(self._commit_user, after=self._after)

    def _writer(self, bucket: BucketId, state: TableState) -> Writer:
        if bucket not in self._writers:
            self._writers[bucket] = self._new_writer(self._context(), bucket, state)
        return self._writers[bucket]

    def _new_writer(self, context: TableContext, bucket: BucketId, state: TableState) -> Writer:
        return open_writer(context, bucket, state.live_files().of(bucket), self._environment)

    def _context(self) -> TableContext:
        context = self.table.context
        return _with_write_only(context, True) if self._write_only else context

    def evolve(self, changes: Sequence[SchemaChange]) -> None:
        """Change the schema; writers start again."""
        self.table = self.table.evolve(changes, now_ms())
        self._writers.clear()

    # ------------------------------------------------------------ reading

    def state(self) -> TableState:
        """The live files of the latest snapshot."""
        return self.table.state()

    def content(self, snapshot_id: int | None = None) -> list[list[Plain]]:
        """The rows of the table, sorted, without kinds."""
        schema = self.table.schema
        if snapshot_id is not None:
            schema = self.table.context.schemas[self.table.snapshots.read(snapshot_id).schema_id]
        return sorted_rows(rows_plain(self.table.to_arrow(snapshot_id=snapshot_id), schema.fields))

    def changes(self, from_snapshot: int | None = None, to_snapshot: int | None = None) -> list[SnapshotChanges]:
        """The changelog, rows ``[kind, values...]`` of each snapshot in stored order."""
        out = []
        for snapshot, rows in self.table.changes(from_snapshot, to_snapshot):
            kinds = [RowKind(kind).short for kind in rows.column(VALUE_KIND).to_pylist()]
            values = rows_plain(rows, self.table.schema.fields)
            out.append(SnapshotChanges(snapshot.id, [[k, *row] for k, row in zip(kinds, values, strict=True)]))
        return out


def prepared(of: TableDriver, rows: Iterable[Sequence[Plain]], *, notes: bool = True) -> list[CommitMessage]:
    """The files that a job has written and not committed yet; Java's jobs do not note by which snapshot keys got their
    places."""
    state = of.state()
    assigned = of.table.assign(of.arrow(rows), state.live_files(), of._environment)
    messages = []
    for bucket, part in assigned.buckets.items():
        writer = of._new_writer(of.table.context, bucket, state)
        writer.write(part)
        message = writer.prepare_append()
        messages.append(assigned.noted(message) if notes else message)
    return messages
