"""Postponed buckets (``bucket`` = -2): rows are appended in order of arrival, and a later compaction assigns their
buckets.

Implements Paimon's postponed writer: files in bucket -2, unmerged, without sequence numbers, in Avro where Avro can
hold the columns. A compaction replays the files of one writer, identified by the prefix of their names, in the order of
their creation times. Different writers have no order among each other. So all rows of a key use the same one of a few
writers, for any number of tasks. Each file has a later creation time than all existing ones, even if the clock went
back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa

from paimon_table.data_files.key_value_file import FileNames, KeyValueFileWriter
from paimon_table.formats.known_formats import postponed_file_settings
from paimon_table.merge.function import merge_function
from paimon_table.merge.sort import KeyOrder
from paimon_table.metadata.bucket_id import POSTPONED, BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.data_file import DataFileMeta, FileSource
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import BucketState
from paimon_table.row_kind import SEQUENCE_NUMBER, VALUE_KIND, are_adds
from paimon_table.rows.groups import groups_of
from paimon_table.schema.key_numbers import bucket_numbers
from paimon_table.write.bucket_writer import WriterEnvironment
from paimon_table.write.incoming import IncomingRows

POSTPONED_LANES = 4
"""The number of writers of each partition. Another number would move keys to writers without an order with the former
ones."""

_USER = "tidemark"
"""Replaces the commit user in names, so that rows of all runs have an order among each other."""


class PostponedWriter:
    """A ``Writer`` of bucket -2 of a partition; several may write it at once, each its own lanes."""

    def __init__(self, ctx: TableContext, bucket: BucketId, state: BucketState, environment: WriterEnvironment) -> None:
        self._ctx = ctx
        self._bucket = bucket
        self._environment = environment
        self._names = FileNames(environment.new_uuid())
        self._incoming = IncomingRows(ctx, bucket, 0, is_final=False)
        self._settings = postponed_file_settings(ctx.options, ctx.schema.fields)
        self._open: dict[int, KeyValueFileWriter] = {}
        self._youngest_ms = max((file.creation_time_ms or 0 for file in state.files), default=0)
        self._order = KeyOrder(ctx.schema, ctx.options)
        self._function = merge_function(ctx.schema, ctx.options)

    def write(self, rows: pa.Table) -> None:
        """See ``Writer``."""
        with self._aborting():
            self._incoming.add(rows)
            if self._incoming.size_bytes >= self._environment.write_buffer_bytes:
                self._flush()

    def prepare_commit(self, full_compact: bool = False) -> CommitMessage:
        """See ``Writer``; a separate job compacts."""
        return self.prepare_append()

    def prepare_append(self) -> CommitMessage:
        """See ``Writer``."""
        with self._aborting():
            self._flush()
            files = [self._younger(file) for writer in self._open.values() for file in writer.close()]
            self._open.clear()
            self._ctx.io.sync()
        return CommitMessage(bucket=self._bucket, total_buckets=POSTPONED, new_files=tuple(files))

    def bytes_to_compact(self, full_compact: bool = False) -> int:
        """None: see ``prepare_commit``."""
        return 0

    def compact_only(self, full_compact: bool = False) -> CommitMessage:
        """Nothing to publish: see ``prepare_commit``."""
        return CommitMessage(bucket=self._bucket, total_buckets=POSTPONED)

    @property
    def kept_bytes(self) -> int:
        """Zero: no rows stay in memory."""
        return 0

    def release_memory(self) -> None:
        """Nothing to release."""

    def _flush(self) -> None:
        rows = self._incoming.take()
        if rows is None:
            return
        self._try_retracts(rows)
        unnumbered = pa.array(np.full(rows.num_rows, -1, np.int64))
        rows = rows.set_column(rows.schema.get_field_index(SEQUENCE_NUMBER), SEQUENCE_NUMBER, unnumbered)
        lanes = bucket_numbers(self._ctx.schema, rows, POSTPONED_LANES, self._ctx.options.bucket_function)
        for lane, members in groups_of(lanes):
            if lane not in self._open:
                self._open[lane] = self._writer(lane)
            self._open[lane].write(rows.take(pa.array(members)))

    def _writer(self, lane: int) -> KeyValueFileWriter:
        ctx = self._ctx
        return KeyValueFileWriter(
            ctx,
            ctx.bucket_dir(self._bucket),
            0,
            FileSource.APPEND,
            f"{ctx.options.data_file_prefix}-u-{_USER}-s-{lane}-w-",
            self._names,
            self._environment.clock_ms,
            settings=self._settings,
        )

    def _younger(self, file: DataFileMeta) -> DataFileMeta:
        """The file with a creation time later than those of all files before it."""
        self._youngest_ms = max(file.creation_time_ms or 0, self._youngest_ms + 1)
        return replace(file, creation_time_ms=self._youngest_ms)

    def _try_retracts(self, rows: pa.Table) -> None:
        """Let the engine check retracts now, because a refused one must not fail in the compaction."""
        retracts = np.flatnonzero(~are_adds(rows.column(VALUE_KIND).to_numpy()))
        if len(retracts):
            tried = rows.take(pa.array(retracts))
            self._function.merge(tried, self._order.sort(tried), single_passes=False)

    @contextmanager
    def _aborting(self) -> Iterator[None]:
        """Remove files after an exception. Unreferenced: their metadata was not passed on."""
        try:
            yield
        except BaseException:
            for writer in self._open.values():
                writer.abort()
            self._open.clear()
            raise
