"""Moves rows from postponed buckets (``bucket`` = -2) into their buckets.

Implements Paimon's compaction of bucket -2. Files are replayed row by row, in the order of their creation, into
ordinary writers of the buckets. One COMPACT snapshot removes them and adds all results of these writers, changelog
included. So readers see all rows at once, and none twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from paimon_table.data_files.key_value_file import iter_key_value_batches
from paimon_table.errors import ConfigError, TidemarkError
from paimon_table.maintenance.compaction import Chosen, compacting
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.shares import Compacted, Shares
from paimon_table.metadata.bucket_id import POSTPONED, BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import LiveFiles
from paimon_table.options.names import BUCKET
from paimon_table.options.table_options import TableOptions
from paimon_table.row_kind import SEQUENCE_NUMBER
from paimon_table.rows.groups import groups_of
from paimon_table.schema.key_numbers import bucket_numbers
from paimon_table.table import Table
from paimon_table.write.writer import Writer, open_writer

BUFFERED_BYTES = 256 << 20
"""The size in memory of the rows that all writers of a partition together buffer before a flush."""

LEAST_BUFFER_BYTES = 4 << 20


def compact_postponed(
    table: Table, job: Job, chosen: Chosen, *, fully: bool = False, new_count: int | None = None
) -> Compacted:
    """Move all postponed rows of the chosen partitions into their buckets; ``fully`` as for ``compact``.

    Partitions without buckets get ``new_count`` buckets, by default the number in the options. Raises CommitConflict if
    others keep compacting the same files; published results stay. Raises ConfigError as ``check_order``.
    """
    commit = job.commit_to(table)
    state = commit.refresh()
    partitions = [b.partition for b in state.files if b.bucket == POSTPONED and chosen(b.partition)]
    ctx = compacting(table.context)
    if new_count is not None:
        ctx = replace(ctx, options=replace(ctx.options, bucket=new_count))

    def one(live: LiveFiles, partition: bytes, is_told: bool) -> list[CommitMessage]:
        files = _waiting(live.files, partition)
        check_order(table.context, live.files, partition)
        return _Replay(ctx, live, partition, files, job).run(fully, is_told) if files else []

    return Shares(ctx, commit, job, one, "try again later").run(
        "give buckets", {p: _waiting(state.files, p) for p in partitions}
    )


def check_order(ctx: TableContext, files: Mapping[BucketId, Sequence[DataFileMeta]], partition: bytes) -> None:
    """Raises ConfigError if waiting rows may be older than rows of their keys that are in buckets.

    After an ALTER TABLE that sets 'bucket' to a number, writers that ignore waiting rows put rows into buckets. Their
    files have a schema with that number, and are newer than a waiting file. If the user sets the option back to -2, the
    rows are accepted.
    """
    waiting = _waiting(files, partition)
    if not waiting or ctx.options.is_postponed:
        return
    since_ms = waiting[0].creation_time_ms or 0
    younger = [
        file
        for bucket, of_bucket in files.items()
        for file in of_bucket
        if bucket.partition == partition
        and bucket.bucket != POSTPONED
        and (file.creation_time_ms or 0) > since_ms
        and ctx.schemas[file.schema_id].options.get(BUCKET, "") != str(POSTPONED)
    ]
    if younger:
        place = ctx.partition_path(partition)
        raise ConfigError(
            f"{ctx.paths.root}: {f'in partition {place} ' if place else ''}rows that wait for a bucket are older than "
            f"rows that were written after 'bucket' became {ctx.options.bucket}, and would replace them. If no key is "
            "in both, or if the older rows may win, set 'bucket' to -2 (ALTER TABLE), compact, and set it back. "
            "Otherwise drop the partition and write its rows again",
            option=BUCKET,
        )


def bucket_number(options: TableOptions, present: int | None, files: Sequence[DataFileMeta]) -> int:
    """The present or future number of buckets of a partition with these postponed files."""
    if present is not None and present > 0:
        return present
    if options.bucket > 0:
        return options.bucket
    if options.postpone_default_bucket_num is not None:
        return options.postpone_default_bucket_num
    if options.postpone_target_row_num is not None:
        return max(1, -(-sum(file.row_count for file in files) // options.postpone_target_row_num))
    return max(1, -(-sum(file.file_size_bytes for file in files) // max(1, options.postpone_target_size_bytes)))


def _waiting(files: Mapping[BucketId, Sequence[DataFileMeta]], partition: bytes) -> list[DataFileMeta]:
    """The postponed files of a partition in the order of the replay."""
    return sorted(files.get(BucketId(partition, POSTPONED), ()), key=lambda file: file.creation_time_ms or 0)


class _Replay:
    """Moves the postponed rows of one partition into its buckets."""

    def __init__(
        self, ctx: TableContext, live: LiveFiles, partition: bytes, files: Sequence[DataFileMeta], job: Job
    ) -> None:
        self._count = bucket_number(ctx.options, live.partition_buckets.get(partition), files)
        self._ctx = replace(ctx, options=replace(ctx.options, bucket=self._count))
        self._live = live
        self._partition = partition
        self._files = files
        self._job = job
        buffer_bytes = max(LEAST_BUFFER_BYTES, BUFFERED_BYTES // self._count)
        self._environment = replace(job.environment, write_buffer_bytes=buffer_bytes)
        self._writers: dict[int, Writer] = {}

    def run(self, fully: bool, is_told: bool) -> list[CommitMessage]:
        """Messages with only a COMPACT part; after an exception no files remain."""
        made: list[CommitMessage] = []
        try:
            for rows in self._rows(is_told):
                for number, part in self._parts(rows):
                    self._writer(number).write(part)
                if sum(writer.kept_bytes for writer in self._writers.values()) > BUFFERED_BYTES:
                    for writer in self._writers.values():
                        writer.release_memory()
            for number in list(self._writers):
                message = self._writers.pop(number).prepare_commit(fully)
                made.append(_as_compaction(self._ctx, message))
        except BaseException:
            # Unreferenced: the messages of these writers are dropped.
            self._ctx.remove_unpublished([*made, *self._left()])
            raise
        bucket = BucketId(self._partition, POSTPONED)
        return [*made, CommitMessage(bucket=bucket, total_buckets=POSTPONED, compact_before=tuple(self._files))]

    def _left(self) -> Iterator[CommitMessage]:
        """The files that the writers flushed, as far as known after an exception."""
        for writer in self._writers.values():
            with suppress(TidemarkError, OSError):
                yield writer.prepare_append()

    def _rows(self, is_told: bool) -> Iterator[pa.Table]:
        ctx = self._ctx
        directory = ctx.bucket_dir(BucketId(self._partition, POSTPONED))
        values = ctx.partition_values(self._partition)
        for file in self._files:
            for rows in iter_key_value_batches(ctx, directory, file, None, values):
                if is_told:
                    self._job.progress.advance(rows.num_rows)
                yield rows.drop_columns([SEQUENCE_NUMBER])

    def _parts(self, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        numbers = bucket_numbers(self._ctx.schema, rows, self._count, self._ctx.options.bucket_function)
        for number, members in groups_of(numbers):
            yield number, rows.take(pa.array(members))

    def _writer(self, number: int) -> Writer:
        if number not in self._writers:
            bucket = BucketId(self._partition, number)
            self._writers[number] = open_writer(self._ctx, bucket, self._live.of(bucket), self._environment)
        return self._writers[number]


def _as_compaction(ctx: TableContext, message: CommitMessage) -> CommitMessage:
    """The message with all changes in the COMPACT part, because the table already had the rows of its new files."""
    merged = {(file.level, file.file_name) for file in message.compact_before}
    new = {file.file_name for file in message.new_files}
    after = [f for f in message.new_files if (f.level, f.file_name) not in merged] + list(message.compact_after)
    names = {file.file_name for file in after}
    for file in message.new_files:
        if file.file_name not in names:
            # Unreferenced: made by this writer, which has merged it, and named by no message.
            ctx.delete_file(message.bucket, file)
    return replace(
        message,
        new_files=(),
        changelog_files=(),
        compact_before=tuple(file for file in message.compact_before if file.file_name not in new),
        compact_after=tuple(after),
        compact_changelog=(*message.changelog_files, *message.compact_changelog),
    )
