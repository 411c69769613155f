"""The writer of one bucket: buffers rows, flushes them to level 0, compacts, and returns what to commit.

Implements Paimon's write path for primary-key tables. Sequence numbers are in arrival order, with one merged flush per
commit (several when the buffer is full), the input changelog, and compaction within the same commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from paimon_table.compaction.chunk_merge import ChunkMerger, newest_row_wins
from paimon_table.compaction.compactor import CompactionResult, Compactor
from paimon_table.compaction.picker import CompactUnit, force_up_level0, pick, pick_full
from paimon_table.compaction.row_ages import RowAges, row_ages
from paimon_table.data_files.altered_values import check_key_files
from paimon_table.data_files.bucket_files import BucketFiles
from paimon_table.data_files.key_value_file import FileNames
from paimon_table.deletion_vectors.deletion_vector_index import BucketDeletions
from paimon_table.errors import BrokenInvariant, ConfigError
from paimon_table.lookup.cache import DEFAULT_MAX_BYTES, shared_lookup_cache
from paimon_table.lookup.lookup_file import Hits, KeyWords, merge_hits
from paimon_table.lookup.stored_rows import StoredRows
from paimon_table.merge.function import MergeFunction, merge_function, without_retracts
from paimon_table.merge.late_rows import late_row_count
from paimon_table.merge.sort import KeyOrder
from paimon_table.mergetree.levels import build_levels, next_sequence_number
from paimon_table.mergetree.run_chunks import CHUNK_BYTES, joined, run_chunks
from paimon_table.mergetree.sections import partition
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.data_file import DataFileMeta, FileSource
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import BucketState
from paimon_table.row_kind import VALUE_KIND, are_adds
from paimon_table.rows.batch_size import in_parts
from paimon_table.rows.gather import gather
from paimon_table.rows.words import Indices
from paimon_table.surroundings import now_ms, random_uuid
from paimon_table.write.bucket_count import check_bucket_count
from paimon_table.write.incoming import IncomingRows

WRITE_BUFFER_BYTES = 128 << 20
"""The size in memory of buffered rows at which they are flushed before the commit."""

KEPT_BYTES = 128 << 20
"""The size of flushed rows that stay in memory until the end of the commit, so that compaction need not read them."""


@dataclass(frozen=True, slots=True)
class WriterEnvironment:
    """The process environment of a writer.

    ``lookup_dir`` is a local directory for lookup files, shared by tables and processes.
    """

    lookup_dir: str
    new_uuid: Callable[[], str] = random_uuid
    clock_ms: Callable[[], int] = now_ms
    lookup_max_bytes: int = DEFAULT_MAX_BYTES
    write_buffer_bytes: int = WRITE_BUFFER_BYTES
    chunk_bytes: int = CHUNK_BYTES
    """The size in memory of the rows that a compaction loads at a time."""


class BucketWriter:
    """The only writer of its bucket while it lives; may serve many commits, one after the other.

    All messages must be committed, in order. After an exception drop the writer: its files since the last message are
    unreferenced.
    """

    def __init__(
        self,
        ctx: TableContext,
        bucket: BucketId,
        state: BucketState,
        environment: WriterEnvironment,
    ) -> None:
        """``state`` is the state of the bucket in the snapshot that the commit builds on."""
        self._ctx = ctx
        self._options = ctx.options
        self._bucket = bucket
        self._partition_buckets = state.partition_buckets
        self._environment = environment
        self._buffer_limit_bytes = environment.write_buffer_bytes
        self._order = KeyOrder(ctx.schema, ctx.options)
        self._function = merge_function(ctx.schema, ctx.options)
        self._deletions = BucketDeletions(
            ctx.io,
            ctx.paths,
            state.deletion_files,
            lambda: f"index-{environment.new_uuid()}-0",
            ctx.options.deletion_vectors_bitmap64,
        )
        names = FileNames(environment.new_uuid())
        self._files = BucketFiles(ctx, bucket, names, environment.clock_ms, self._deletions)
        as_stored = replace(ctx, options=replace(ctx.options, snapshot_ordering=False))
        self._files_as_stored = BucketFiles(as_stored, bucket, names, environment.clock_ms, self._deletions)
        cache = shared_lookup_cache(environment.lookup_dir, environment.lookup_max_bytes)
        self._cache = cache
        self._stored = StoredRows(ctx.paths.root, self._files, cache, KeyWords(self._order))
        marks = self._mark_deleted if ctx.options.deletion_vectors else None
        self._merger = ChunkMerger(self._order, self._function, ctx.options, self._stored, marks)
        self._compactor = Compactor(
            self._files, self._merger, self._order, ctx.options, self._stored, self._deletions, environment.chunk_bytes
        )
        check_key_files(ctx.schema, ctx.paths.root, state.files)
        self._levels = build_levels(state.files, ctx.options.num_levels, self._order.file_key)
        self._stored.keep_only(self._levels.files)
        self._incoming = IncomingRows(
            ctx, bucket, next_sequence_number(self._levels.files), clock_ms=environment.clock_ms
        )
        self._new_files: tuple[DataFileMeta, ...] = ()
        self._changelog_files: tuple[DataFileMeta, ...] = ()
        self._kept_bytes = 0
        self._late_rows = 0
        self._has_unordered_files = False
        """Whether there are files whose rows get their order only from the snapshot of the commit."""

    # ------------------------------------------------------------ writing

    def write(self, rows: pa.Table) -> None:
        """Add rows in arrival order: the table's columns and ``_VALUE_KIND``. Earlier calls arrived earlier.

        Raises ConfigError, and writes nothing, if the partition has another number of buckets.
        """
        check_bucket_count(self._ctx, self._bucket.partition, self._partition_buckets)
        if self._options.snapshot_ordering and not self._options.write_only:
            raise ConfigError(
                f"{self._ctx.paths.root} has 'sequence.snapshot-ordering': write its rows with write-only=true, and "
                "compact it in a separate job without rows"
            )
        for part in in_parts(rows, self._buffer_limit_bytes):
            self._incoming.add(part)
            if self._incoming.size_bytes >= self._buffer_limit_bytes:
                self._flush()

    def prepare_commit(self, full_compact: bool = False) -> CommitMessage:
        """Flush and compact; all files of the message are durable.

        The writer continues from the state after the message, so commit the message or drop the writer.
        ``full_compact`` merges all files into the highest level.
        """
        self._finish_flushes()
        upper = frozenset((file.level, file.file_name) for file in self._levels.files if file.level > 0)
        message = self._message(self._compact(full_compact), upper)
        self.release_memory()
        return message

    def prepare_append(self) -> CommitMessage:
        """Flush only; ``compact_only`` does the rest, in this writer or in one opened on the state after the commit.

        Both together equal ``prepare_commit``, but the rows can be published while the compaction runs. Flushed rows
        stay in memory for the compaction, up to ``KEPT_BYTES``, see ``release_memory``.
        """
        self._finish_flushes()
        return self._message(CompactionResult(), frozenset())

    def bytes_to_compact(self, full_compact: bool = False) -> int:
        """See ``Writer``."""
        unit = None if self._options.write_only else self._pick(full_compact)
        return 0 if unit is None else sum(file.file_size_bytes for file in unit.files)

    @property
    def kept_bytes(self) -> int:
        """The size of the flushed rows that stay in memory."""
        return self._kept_bytes

    def release_memory(self) -> None:
        """Drop flushed rows from memory; compactions then read them from their files."""
        self._files.release_memory()
        self._kept_bytes = 0

    def compact_only(self, full_compact: bool = False) -> CommitMessage:
        """Compact the existing files, after ``prepare_append`` or a crash; this also writes the changelog of level
        0."""
        if not self._incoming.is_empty:
            raise BrokenInvariant(
                f"bucket {self._bucket.bucket} has rows to write: call prepare_commit, not compact_only"
            )
        return self.prepare_commit(full_compact)

    def _finish_flushes(self) -> None:
        self._flush()
        if self._options.snapshot_ordering:
            self._merge_flushes()

    def _message(self, compacted: CompactionResult, upper: frozenset[tuple[int, str]]) -> CommitMessage:
        """The files written since the last message, all durable. ``upper``: files above level 0 before."""
        index = self._deletions.write()
        self._ctx.io.sync()
        message = CommitMessage(
            bucket=self._bucket,
            total_buckets=self._partition_buckets or self._options.bucket,
            new_files=self._new_files,
            changelog_files=self._changelog_files,
            compact_before=compacted.before,
            compact_after=compacted.after,
            compact_changelog=compacted.changelog,
            compact_index=index,
            compact_seen=upper if self._options.needs_lookup and compacted.before else None,
            late_row_count=self._late_rows + self._merger.late_rows,
        )
        self._new_files = self._changelog_files = ()
        self._late_rows = self._merger.late_rows = 0
        self._stored.keep_only(self._levels.files)
        return message

    def _flush(self) -> None:
        """Sort and merge the buffered rows and write them to level 0; every raw row to an input changelog."""
        rows = self._incoming.take()
        if rows is None:
            return
        groups = self._order.sort(rows)
        if self._options.changelog_producer == "input":
            with self._files.changelog_writer(0, FileSource.APPEND) as changelog:
                changelog.write(gather(rows, groups.indices))
                self._changelog_files += changelog.close()
        self._late_rows += late_row_count(self._order, rows, groups)
        merged = self._function.merge(rows, groups)
        with self._files.data_writer(0, FileSource.APPEND) as data:
            data.write(merged)
            written = data.close()
        self._new_files += written
        self._levels = self._levels.with_added(written, self._order.file_key)
        if self._kept_bytes + merged.nbytes <= KEPT_BYTES:
            self._kept_bytes += merged.nbytes
            self._files.keep_in_memory(written, merged)

    def _merge_flushes(self) -> None:
        """Merge flushes so that each key is in only one new file, because only the arrival here shows which of its rows
        is newer."""
        flushed = self._new_files
        self._new_files = one_run(
            flushed, self._files_as_stored, self._order, self._function, self._environment.chunk_bytes
        )
        kept = {file.file_name for file in self._new_files}
        obsolete = [file for file in flushed if file.file_name not in kept]
        added = [file for file in self._new_files if file not in flushed]
        self._levels = self._levels.with_compacted(obsolete, added, self._order.file_key)
        for file in obsolete:
            # Unreferenced: created since the last message, in no level, and named by no message.
            self._files.delete(file)
        self._has_unordered_files |= bool(self._new_files)

    # ------------------------------------------------------------ compaction

    def _compact(self, full: bool) -> CompactionResult:
        """Compact until the strategy picks nothing; removes files that existed only between two rounds."""
        result = CompactionResult()
        unit = self._pick(full)
        while unit is not None:
            done = self._compactor.run(unit, self._levels, self._ages())
            self._levels = self._levels.with_compacted(done.before, done.after, self._order.file_key)
            result, obsolete = result.then(done)
            for file in obsolete:
                # Unreferenced: created since the last message, in no level, and named by no message.
                self._files.delete(file)
            unit = self._pick(full=False)
        return result

    def _pick(self, full: bool) -> CompactUnit | None:
        if self._options.write_only:
            if full:
                raise ConfigError("the table is write-only: compact it in a job that opens it with write-only=false")
            return None
        options, runs, max_level = self._options, self._levels.runs(), self._levels.max_level
        if full:
            return pick_full(runs, max_level, self._has_gone_rows(self._ages()))
        if options.needs_lookup or options.force_up_level0:
            return force_up_level0(runs, options, max_level, options.level0_patience)
        return pick(runs, options, max_level)

    def _has_gone_rows(self, ages: RowAges) -> Callable[[DataFileMeta], bool]:
        return lambda file: self._deletions.of(file.file_name) is not None or ages.has_gone(file)

    def _ages(self) -> RowAges:
        return row_ages(self._ctx, self._environment.clock_ms())

    def _mark_deleted(self, file: DataFileMeta, positions: Indices) -> None:
        self._deletions.delete(file.file_name, positions)

    # ------------------------------------------------------------ reading

    def lookup(self, keys: pa.Table, *, with_deletes: bool = False) -> pa.Table:
        """The stored rows of these keys, sorted by key, each existing one once; see ``find_rows``.

        ``with_deletes`` adds the deletes that files still hold of other keys.
        """
        return self._merged(keys).rows if with_deletes else self.find_rows(keys).rows

    def find_rows(self, keys: pa.Table) -> Hits:
        """The stored row of each key, merged over all levels; rows that are still buffered do not count.

        ``keys`` has the key columns, in any order and with repetitions. Position i of the result is the number of a row
        of ``keys`` with the key of row i; each existing key appears once.
        """
        hits = self._merged(keys)
        exists = are_adds(hits.rows.column(VALUE_KIND).to_numpy())
        return Hits(hits.positions[exists], without_retracts(hits.rows))

    def _merged(self, keys: pa.Table) -> Hits:
        """As ``find_rows``, with the deletes of missing keys."""
        if self._has_unordered_files:
            raise BrokenInvariant(
                f"bucket {self._bucket.bucket} of {self._ctx.paths.root} has rows that 'sequence.snapshot-ordering' "
                "orders after their commit; open a new writer to look them up"
            )
        first, _ = self._order.distinct(keys)
        distinct = gather(keys, first)
        hits = self._versions(distinct)
        if len(hits.positions) == 0:
            return hits
        _, number = np.unique(hits.positions, return_inverse=True)
        groups = self._order.sort_versions(hits.rows, number)
        positions = first[hits.positions[groups.indices[groups.starts]]]
        return Hits(positions, self._function.merge(hits.rows, groups))

    def find_beginning(self, keys: pa.Table) -> pa.Table:
        """The stored rows whose keys begin with one of these, merged over all levels, sorted by key.

        ``keys`` has the first columns of the trimmed primary key, in any order and with repetitions.
        """
        order = KeyOrder(self._ctx.schema, self._options, keys.num_columns)
        first, _ = order.distinct(keys)
        stored = StoredRows(self._ctx.paths.root, self._files, self._cache, KeyWords(order))
        found = stored.all_versions(self._levels.runs(), gather(keys, first)).rows
        return without_retracts(self._function.merge(found, self._order.sort(found)))

    def forget_all_but(self, files: Iterable[DataFileMeta]) -> None:
        """Delete the lookup files of all data files except these, after a lookup in a former state."""
        self._stored.keep_only(files)

    def _versions(self, keys: pa.Table) -> Hits:
        """The stored rows of the keys that affect the result, level 0 included."""
        runs = self._levels.runs()
        if newest_row_wins(self._options):
            return self._stored.newest(runs, keys)
        if not self._options.upper_rows_are_whole:
            return self._stored.all_versions(runs, keys)
        level0 = self._stored.all_versions([run for run in runs if run.level == 0], keys)
        return merge_hits([level0, self._stored.newest([run for run in runs if run.level > 0], keys)])


def one_run(
    flushed: Sequence[DataFileMeta], files: BucketFiles, order: KeyOrder, function: MergeFunction, chunk_bytes: int
) -> tuple[DataFileMeta, ...]:
    """Level-0 files with each key of the ``flushed`` ones once, merged in order of arrival.

    With ``sequence.snapshot-ordering`` rows of one snapshot have no order among each other. So a commit may have each
    key of a bucket only once, and files that are not committed yet cannot be compared with others. Returns ``flushed``
    itself if no two of its files overlap. ``files`` must return rows with the stored sequence numbers; the given files
    are not removed.
    """
    sections = partition(flushed, order.file_key)
    if all(len(section) == 1 for section in sections):
        return tuple(flushed)
    with files.data_writer(0, FileSource.APPEND) as data:
        for section in sections:
            for pieces in run_chunks(section, files.batches, order, chunk_bytes):
                rows, _ = joined(pieces)
                data.write(function.merge(rows, order.sort(rows)))
        return data.close()
