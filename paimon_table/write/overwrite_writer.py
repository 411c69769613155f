"""Writes the new rows of an INSERT OVERWRITE.

Paimon publishes the compaction of the new rows as a second snapshot. Here one snapshot has the final, compacted files,
so a crash leaves either the old rows or the compacted new ones.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from paimon_table.mergetree.levels import find_overlap
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import BucketState
from paimon_table.options.table_options import TableOptions
from paimon_table.write.bucket_writer import WriterEnvironment
from paimon_table.write.writer import open_writer


class OverwriteWriter:
    """Writes the new rows of one bucket for one commit, independent of the present content of the bucket."""

    def __init__(self, ctx: TableContext, bucket: BucketId, environment: WriterEnvironment) -> None:
        self._ctx = replace(ctx, options=_without_changelog(ctx.options))
        self._bucket = bucket
        self._writer = open_writer(self._ctx, bucket, BucketState(), environment)

    def write(self, rows: pa.Table) -> None:
        """Add rows in arrival order, as ``BucketWriter.write`` does."""
        self._writer.write(rows)

    def prepare(self, full_compact: bool = False) -> CommitMessage | None:
        """Flush and compact; the message has the remaining files, all durable, as new files.

        None if every row was ignored (``ignore-delete``); a message without files if all rows were deletes.
        """
        written = self._writer.prepare_commit(full_compact)
        if not written.new_files:
            return None
        left = {(file.level, file.file_name): file for file in written.new_files}
        for file in written.compact_before:
            left.pop((file.level, file.file_name))
        left |= {(file.level, file.file_name): file for file in written.compact_after}
        names = {file.file_name for file in left.values()}
        for file in written.new_files:
            if file.file_name not in names:
                # Unreferenced: this writer created and merged it, and no message names it.
                self._ctx.delete_file(self._bucket, file)
        return CommitMessage(
            bucket=self._bucket,
            total_buckets=self._ctx.options.bucket,
            new_files=_upgraded(tuple(left.values()), self._ctx),
            compact_index=written.compact_index,
        )


def _without_changelog(options: TableOptions) -> TableOptions:
    """The same table, compacted the same way, without a changelog."""
    return replace(options, changelog_producer="none", force_lookup=options.needs_lookup)


def _upgraded(files: tuple[DataFileMeta, ...], ctx: TableContext) -> tuple[DataFileMeta, ...]:
    """The files, with those that need no merge on the highest level.

    Unlike in Paimon, files with retracts stay on their level, because a compaction decides the meaning of a single
    retract on level 0.
    """
    needs_merge = any(file.level > 0 or file.delete_row_count != 0 for file in files)
    if not ctx.options.overwrite_upgrade or needs_merge or not ctx.schema.primary_keys:
        return files
    if find_overlap(files, [f.type for f in ctx.schema.key_fields]) is not None:
        return files
    return tuple(file.at_level(ctx.options.max_level) for file in files)
