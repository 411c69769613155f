"""Moves the rows of one partition into another number of buckets.

It is a full compaction across buckets. Every key is merged to one row and retracts are dropped. The other rows move
unchanged, with their sequence numbers, to the highest level of their new bucket. So values stay that an INSERT of the
visible rows would lose, such as those of the function ``count``.

It reads the old buckets in parallel in key order, so that every new file is written once. Buckets whose numbers differ
modulo the common divisor of both counts share no keys. They are processed class by class, which bounds the number of
open files. If a class still has too many runs, its rows are written twice. For dynamic buckets all keys are read first:
each hash gets its bucket, at 6 bytes in memory, before the first row is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from paimon_table.compaction.row_ages import row_ages
from paimon_table.data_files.key_value_file import FileNames, KeyValueFileWriter, iter_key_value_batches
from paimon_table.deletion_vectors.deletion_vector import DeletionVector
from paimon_table.deletion_vectors.deletion_vector_index import read_vectors
from paimon_table.maintenance.placement import (
    MOST_OPEN,
    DynamicPlacement,
    FixedPlacement,
    Placement,
    dynamic_pass_count,
    fixed_passes,
)
from paimon_table.merge.function import merge_function
from paimon_table.merge.sort import KeyOrder
from paimon_table.merge.superseded import without_superseded
from paimon_table.mergetree.run_chunks import joined, run_chunks
from paimon_table.mergetree.sections import Section, partition
from paimon_table.metadata.bucket_id import DYNAMIC, BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.data_file import DataFileMeta, FileSource
from paimon_table.metadata.hash_index import KeyHashes, distinct
from paimon_table.metadata.index_file import IndexChange
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import BucketState
from paimon_table.options.file_settings import data_file_settings
from paimon_table.options.table_options import TableOptions
from paimon_table.rows.gather import gather
from paimon_table.schema.key_numbers import key_hashes
from paimon_table.write.bucket_writer import WriterEnvironment


@dataclass(frozen=True, slots=True)
class _Stored:
    """A file to read."""

    directory: str
    file: DataFileMeta
    deleted: DeletionVector | None


def rows_to_read(held: Mapping[int, BucketState], present_count: int, count: int, options: TableOptions) -> int:
    """The number of stored rows that a redistribution reads; rows that it reads twice count twice.

    It is an estimate for dynamic buckets, because their number depends on the keys.
    """
    row_counts = {number: sum(file.row_count for file in state.files) for number, state in held.items()}
    if count == DYNAMIC:
        row_count = sum(row_counts.values())
        return row_count * (1 + dynamic_pass_count(options, row_count))
    return sum(row_counts[number] for old, _ in fixed_passes(sorted(held), present_count, count) for number in old)


@dataclass(frozen=True, slots=True)
class Redistribution:
    """Moves one partition into ``bucket_count`` buckets, or dynamic ones."""

    ctx: TableContext
    partition: bytes
    bucket_count: int
    environment: WriterEnvironment
    names: FileNames
    on_rows: Callable[[int], None]
    """Called with the number of processed rows; an exception in it ends the work."""

    def run(self, held: Mapping[int, BucketState], present_count: int) -> tuple[CommitMessage, ...]:
        """The messages of the new buckets, with durable files. Readers must already see all rows of level 0.

        ``held`` are the buckets with files, among ``present_count``. After an exception no files of the work remain.
        """
        made: list[CommitMessage] = []
        try:
            placement = self._placement(held)
            for old, new in placement.passes(sorted(held), present_count):
                made += self._moved([(number, held[number]) for number in old], new, placement)
            for number, index in placement.write_index(self.ctx, self.environment.new_uuid()):
                made.append(replace(self._message(number), append_index=IndexChange(after=(index,))))
            self.ctx.io.sync()
        except BaseException:
            # Unreferenced: no other code has seen the messages.
            self.ctx.remove_unpublished(made)
            raise
        return tuple(made)

    def _placement(self, held: Mapping[int, BucketState]) -> Placement:
        options = self.ctx.options
        if self.bucket_count != DYNAMIC:
            return FixedPlacement(self.ctx.schema, options.bucket_function, self.bucket_count)
        return DynamicPlacement(self.ctx.schema, options, self._stored_hashes(held))

    def _stored_hashes(self, held: Mapping[int, BucketState]) -> Iterator[KeyHashes]:
        """The hashes of all keys, including deleted ones, file by file."""
        ctx, values = self.ctx, self.ctx.partition_values(self.partition)
        for number, state in sorted(held.items()):
            directory = ctx.bucket_dir(BucketId(self.partition, number))
            for file in state.files:
                found = [np.empty(0, np.int32)]
                for rows in iter_key_value_batches(ctx, directory, file, ctx.schema.trimmed_primary_keys, values):
                    found.append(distinct(key_hashes(ctx.schema, rows)))
                    self.on_rows(rows.num_rows)
                yield distinct(np.concatenate(found))

    # ------------------------------------------------------------ one pass

    def _moved(
        self, old: Sequence[tuple[int, BucketState]], new: Sequence[int], placement: Placement
    ) -> list[CommitMessage]:
        """Move the rows of the old buckets that belong to the new ones."""
        top = self.ctx.options.max_level
        shares = list(_shares([(self._stored(number, state), _run_count(state)) for number, state in old]))
        if len(shares) == 1:
            return self._written(shares[0], new, top, placement)
        parts: list[CommitMessage] = []
        made: list[CommitMessage] = []
        try:
            for share in shares:
                parts += self._written(share, new, 0, placement)
            for number in new:
                files = [file for part in parts if part.bucket.bucket == number for file in part.new_files]
                directory = self.ctx.bucket_dir(BucketId(self.partition, number))
                made += self._written([_Stored(directory, file, None) for file in files], [number], top, placement)
        except BaseException:
            self.ctx.remove_unpublished(made)
            raise
        finally:
            # Unreferenced: intermediate files, which no returned message names.
            self.ctx.remove_unpublished(parts)
        return made

    def _stored(self, number: int, state: BucketState) -> list[_Stored]:
        directory = self.ctx.bucket_dir(BucketId(self.partition, number))
        vectors = read_vectors(self.ctx.io, self.ctx.paths, state.deletion_files)
        return [_Stored(directory, file, vectors.get(file.file_name)) for file in state.files]

    def _written(
        self, stored: Sequence[_Stored], new: Sequence[int], level: int, placement: Placement
    ) -> list[CommitMessage]:
        """Merge the files; leaves out rows of other buckets than ``new``."""
        made: list[CommitMessage] = []
        try:
            with ExitStack() as stack:
                writers = {number: stack.enter_context(self._writer(number, level)) for number in new}
                for rows in self._merged(stored):
                    for number, part in _parts(rows, new, placement):
                        writers[number].write(part)
                for number, writer in writers.items():
                    files = writer.close()
                    if files:
                        made.append(replace(self._message(number), new_files=files))
        except BaseException:
            self.ctx.remove_unpublished(made)
            raise
        return made

    def _writer(self, number: int, level: int) -> KeyValueFileWriter:
        ctx = self.ctx
        return KeyValueFileWriter(
            ctx,
            ctx.bucket_dir(BucketId(self.partition, number)),
            level,
            FileSource.COMPACT,
            ctx.options.data_file_prefix,
            self.names,
            self.environment.clock_ms,
            settings=data_file_settings(ctx.options, level),
        )

    # ------------------------------------------------------------ rows

    def _merged(self, stored: Sequence[_Stored]) -> Iterator[pa.Table]:
        """The rows that readers see, and the deletes that stay, in key order."""
        ctx = self.ctx
        ages = row_ages(ctx, self.environment.clock_ms())
        order, function = KeyOrder(ctx.schema, ctx.options), merge_function(ctx.schema, ctx.options)
        by_name = {one.file.file_name: one for one in stored}
        values = ctx.partition_values(self.partition)

        def read(file: DataFileMeta, batch_rows: int) -> Iterator[pa.Table]:
            one = by_name[file.file_name]
            yield from iter_key_value_batches(ctx, one.directory, file, None, values, batch_rows, None, one.deleted)

        for section in partition([one.file for one in stored], order.file_key):
            for pieces in run_chunks(section, read, order, self.environment.chunk_bytes):
                rows, levels = joined(pieces)
                del pieces
                self.on_rows(rows.num_rows)
                if _is_one_run(section):
                    yield ages.remaining(rows)
                    continue
                groups = order.sort(rows)
                if ctx.options.upper_rows_are_whole:
                    groups = without_superseded(groups, levels)
                yield ages.remaining(function.merge(rows, groups))

    def _message(self, number: int) -> CommitMessage:
        return CommitMessage(bucket=BucketId(self.partition, number), total_buckets=self.bucket_count)


def _parts(rows: pa.Table, new: Sequence[int], placement: Placement) -> Iterator[tuple[int, pa.Table]]:
    """The rows that go into each of the ``new`` buckets."""
    numbers = placement.numbers(rows)
    for number in new:
        members = np.flatnonzero(numbers == number)
        if len(members):
            yield number, gather(rows, members)


def _is_one_run(section: Section) -> bool:
    """Whether the section needs no merge: every merge engine keeps a single row of a key unchanged."""
    return len(section) == 1


def _run_count(state: BucketState) -> int:
    levels = [file.level for file in state.files]
    return levels.count(0) + len({level for level in levels if level})


def _shares(buckets: Sequence[tuple[list[_Stored], int]]) -> Iterator[list[_Stored]]:
    """The files of the buckets in parts with a limited number of runs, unless one bucket has more; at least one
    part."""
    share: list[_Stored] = []
    runs = 0
    for stored, run_count in buckets:
        if share and runs + run_count > MOST_OPEN:
            yield share
            share, runs = [], 0
        share = [*share, *stored]
        runs += run_count
    yield share
