"""The writer of a bucket of a table without primary key: writes rows in order of arrival, and packs small files.

Implements Paimon's append writers. With buckets, a bucket has one writer. Its sequence numbers continue after the
existing ones, and it compacts only adjacent files, so the order of arrival stays. Without buckets every writer begins
at 0, and any number of writers may write a partition at once. The caller, which sees all files, decides what to
compact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa

from paimon_table.compaction.append_picker import Pack, PackLimits, deleted_counts, pick_packs
from paimon_table.data_files.bucket_files import BucketFiles
from paimon_table.data_files.key_value_file import FileNames, KeyValueFileWriter
from paimon_table.deletion_vectors.deletion_vector_index import BucketDeletions
from paimon_table.errors import BrokenInvariant, ConfigError
from paimon_table.mergetree.levels import next_sequence_number
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.data_file import DataFileMeta, FileSource
from paimon_table.metadata.index_file import IndexChange
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import BucketState
from paimon_table.row_kind import SEQUENCE_NUMBER
from paimon_table.rows.batch_size import in_parts
from paimon_table.write.bucket_count import check_bucket_count
from paimon_table.write.bucket_writer import WriterEnvironment
from paimon_table.write.clustering import clustering_columns, sorted_by, sorted_in_stretches
from paimon_table.write.incoming import IncomingRows
from paimon_table.write.sorted_runs import sorted_rows

Order = Callable[[Iterable[pa.Table]], Iterator[pa.Table]]
"""Returns all rows, perhaps reordered."""


class AppendWriter:
    """A ``Writer`` for rows without key; may serve many commits, one after the other."""

    def __init__(self, ctx: TableContext, bucket: BucketId, state: BucketState, environment: WriterEnvironment) -> None:
        """``state`` is the state of the bucket in the snapshot that the commit builds on."""
        self._ctx = ctx
        self._bucket = bucket
        self._partition_buckets = state.partition_buckets
        self._buffer_limit_bytes = environment.write_buffer_bytes
        self._is_shared = ctx.options.is_unaware
        self._limits = PackLimits.of(ctx.options)
        self._clustering = clustering_columns(ctx.options)
        self._deletions = BucketDeletions(
            ctx.io,
            ctx.paths,
            state.deletion_files,
            lambda: f"index-{environment.new_uuid()}-0",
            ctx.options.deletion_vectors_bitmap64,
        )
        self._deleted = deleted_counts(state.deletion_files)
        names = FileNames(environment.new_uuid())
        self._bucket_files = BucketFiles(ctx, bucket, names, environment.clock_ms, self._deletions)
        self._files = state.files
        first_number = 0 if self._is_shared else next_sequence_number(state.files)
        self._incoming = IncomingRows(ctx, bucket, first_number)
        self._data: KeyValueFileWriter | None = None
        self._written: tuple[DataFileMeta, ...] = ()

    # ------------------------------------------------------------ writing

    def write(self, rows: pa.Table) -> None:
        """See ``Writer``."""
        check_bucket_count(self._ctx, self._bucket.partition, self._partition_buckets)
        with self._aborting():
            for part in in_parts(rows, self._buffer_limit_bytes):
                self._incoming.add(part)
                if self._incoming.size_bytes >= self._buffer_limit_bytes:
                    self._flush()

    def prepare_commit(self, full_compact: bool = False) -> CommitMessage:
        """See ``Writer``."""
        with self._aborting():
            self._finish()
        return self._message(self._pick(full_compact), rewrites=full_compact)

    def prepare_append(self) -> CommitMessage:
        """See ``Writer``."""
        with self._aborting():
            self._finish()
        return self._message(())

    def bytes_to_compact(self, full_compact: bool = False) -> int:
        """See ``Writer``; 0 if several writers share the files, because each would choose the same ones."""
        if self._is_shared or self._ctx.options.write_only:
            return 0
        return sum(file.file_size_bytes for pack in self._pick(full_compact) for file in pack)

    def compact_only(self, full_compact: bool = False) -> CommitMessage:
        """See ``Writer``."""
        if not self._incoming.is_empty or self._data is not None:
            raise BrokenInvariant(
                f"bucket {self._bucket.bucket} has rows to write: call prepare_commit, not compact_only"
            )
        return self.prepare_commit(full_compact)

    def sort(self, columns: tuple[str, ...], directory: str) -> CommitMessage:
        """Rewrite all files of the bucket with their rows in the order of the columns: the message's COMPACT part.

        ``directory`` is on a local disk with space for the rows. Only for tables that do not keep the order of arrival.
        """
        if not self._is_shared:
            raise BrokenInvariant(f"{self._ctx.paths.root} keeps the order of arrival; please report")

        def order(rows: Iterable[pa.Table]) -> Iterator[pa.Table]:
            return sorted_rows(rows, columns, self._buffer_limit_bytes, directory)

        return self._message((tuple(self._files),), rewrites=True, order=order)

    def _flush(self) -> None:
        rows = self._incoming.take()
        if rows is None:
            return
        if self._data is None:
            self._data = self._bucket_files.data_writer(0, FileSource.APPEND)
        self._data.write(sorted_by(rows, self._clustering))

    def _finish(self) -> None:
        self._flush()
        if self._data is not None:
            self._written += self._data.close()
            self._data = None

    @contextmanager
    def _aborting(self) -> Iterator[None]:
        """Remove unfinished files after an exception. Unreferenced: their metadata was not passed on."""
        try:
            yield
        except BaseException:
            if self._data is not None:
                self._data.abort()
            raise

    def _message(self, packs: tuple[Pack, ...], *, rewrites: bool = False, order: Order | None = None) -> CommitMessage:
        """The files written since the last message, and the packs joined into larger files, all durable."""
        before = tuple(file for pack in packs for file in pack)
        after, index = self._compacted(packs, rewrites, order or self._in_stretches)
        gone = {file.file_name for file in before}
        written, self._written = self._written, ()
        self._files = tuple(file for file in (*self._files, *written) if file.file_name not in gone) + after
        for name in gone:
            self._deleted.pop(name, None)
        return CommitMessage(
            bucket=self._bucket,
            total_buckets=self._partition_buckets or self._ctx.options.bucket,
            new_files=written,
            compact_before=before,
            compact_after=after,
            compact_index=index,
        )

    # ------------------------------------------------------------ compaction

    def _pick(self, full: bool) -> tuple[Pack, ...]:
        if self._ctx.options.write_only:
            if full:
                raise ConfigError("the table is write-only: compact it in a job that opens it with write-only=false")
            return ()
        files = (*self._files, *self._written)
        return pick_packs(files, self._deleted, self._limits, keeps_order=not self._is_shared, full=full)

    def _compacted(
        self, packs: tuple[Pack, ...], rewrites: bool, order: Order
    ) -> tuple[tuple[DataFileMeta, ...], IndexChange]:
        """The larger files, and the change of the deletion vectors; a failure leaves the writer unchanged."""
        after: tuple[DataFileMeta, ...] = ()
        deletions = self._deletions.state()
        try:
            for pack in packs:
                joined = None if rewrites else self._joined(pack)
                after += joined or self._rewritten(pack, order)
            index = self._deletions.write()
            self._ctx.io.sync()
        except BaseException:
            self._deletions.restore(deletions)
            with suppress(OSError):
                for file in after:
                    self._bucket_files.delete(file)
            raise
        return after, index

    def _joined(self, pack: Pack) -> tuple[DataFileMeta, ...] | None:
        """The files joined into larger ones; None if their rows must be decoded for that."""
        joined = None if self._clustering else self._bucket_files.joined(pack)
        if joined is None or not self._is_shared:
            return joined
        return tuple(replace(file, min_sequence_number=0, max_sequence_number=file.row_count - 1) for file in joined)

    def _in_stretches(self, rows: Iterable[pa.Table]) -> Iterator[pa.Table]:
        return sorted_in_stretches(rows, self._clustering, self._buffer_limit_bytes)

    def _rewritten(self, pack: Pack, order: Order) -> tuple[DataFileMeta, ...]:
        """Rewrite the live rows, in file order unless ``order`` changes it; sequence numbers stay in the range of the
        files."""
        number, last = pack[0].min_sequence_number, max(file.max_sequence_number for file in pack)
        if self._is_shared:
            number, last = 0, sum(file.row_count for file in pack)
        with self._bucket_files.data_writer(0, FileSource.COMPACT) as data:
            batches = (rows for file in pack for rows in self._bucket_files.batches(file))
            for rows in order(batches):
                numbers = np.minimum(np.arange(number, number + rows.num_rows, dtype=np.int64), last)
                place = rows.schema.get_field_index(SEQUENCE_NUMBER)
                data.write(rows.set_column(place, rows.schema.field(place), pa.array(numbers)))
                number += rows.num_rows
            written = data.close()
        for file in pack:
            self._deletions.forget(file.file_name)
        return written

    # ------------------------------------------------------------ what rows without key have not

    @property
    def kept_bytes(self) -> int:
        """Zero: nothing stays in memory."""
        return 0

    def release_memory(self) -> None:
        """Nothing to release."""
