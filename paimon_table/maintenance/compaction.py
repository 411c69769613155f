"""Compacting a table in a separate job, bucket by bucket, while others write the table.

Publishes COMPACT snapshots with the changelog of the compactions, as a writer of the table would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from paimon_table.commit.commit import TableCommit
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.shares import Compacted, Shares
from paimon_table.metadata.bucket_id import POSTPONED, BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import LiveFiles, TableState
from paimon_table.table import Table
from paimon_table.write.writer import open_writer

Chosen = Callable[[bytes], bool]
"""Whether a partition, by its serialized row, is chosen."""


def compact(table: Table, job: Job, chosen: Chosen, *, fully: bool) -> Compacted:
    """Compact the buckets of the chosen partitions: by their strategy, or with ``fully`` into their highest level.

    Raises CommitConflict if others keep changing the same files. Published results stay, also after other exceptions.
    """
    commit = job.commit_to(table)
    due = [bucket for bucket in commit.refresh().files if bucket.bucket != POSTPONED and chosen(bucket.partition)]
    return _compact(compacting(table.context), commit, job, due, fully)


def would_compact(
    table: Table, job: Job, chosen: Chosen, *, fully: bool, also_pending: bool = False
) -> dict[BucketId, tuple[DataFileMeta, ...]]:
    """The buckets that ``compact`` would change now, with all of their files; for postponed buckets the waiting files.

    With ``also_pending`` also those of ``compact_pending``.
    """
    state, ctx = table.state(), compacting(table.context)
    live = state.live_files()
    pending = frozenset(unseen(table, state) if also_pending else ())

    def is_due(bucket: BucketId) -> bool:
        if bucket.bucket == POSTPONED or bucket in pending:
            return True
        return open_writer(ctx, bucket, live.of(bucket), job.environment).bytes_to_compact(full_compact=fully) > 0

    return {bucket: files for bucket, files in state.files.items() if chosen(bucket.partition) and is_due(bucket)}


def compact_pending(table: Table, job: Job, chosen: Chosen) -> Compacted:
    """Compact the buckets whose rows or changes readers do not see yet, even if the options allow more delay."""
    options = table.options
    fully = options.changelog_producer == "full-compaction"
    if not fully and not options.needs_lookup:
        return Compacted()
    commit = job.commit_to(table)
    due = [bucket for bucket in unseen(table, commit.refresh()) if chosen(bucket.partition)]
    ctx = compacting(table.context)
    ctx = replace(ctx, options=replace(ctx.options, lookup_compact="radical"))
    return _compact(ctx, commit, job, due, fully)


def unseen(table: Table, state: TableState) -> list[BucketId]:
    """The buckets with rows that readers of the table or its changelog do not see before a compaction."""
    options = replace(table.options, lookup_compact="radical")
    if options.changelog_producer == "full-compaction":
        due = table.due_compactions(state, fully=True, is_appended=True)
    elif options.needs_lookup:
        due = tuple(bucket for bucket, files in state.files.items() if any(file.level == 0 for file in files))
    else:
        due = ()
    return [bucket for bucket in due if bucket.bucket != POSTPONED]


def compacting(ctx: TableContext) -> TableContext:
    """The table for a compacting job, without ``write-only``, which applies to other writers."""
    return replace(ctx, options=replace(ctx.options, write_only=False))


def _compact(ctx: TableContext, commit: TableCommit, job: Job, due: Iterable[BucketId], fully: bool) -> Compacted:
    def one(live: LiveFiles, bucket: BucketId, is_told: bool) -> Iterator[CommitMessage]:
        state = live.of(bucket)
        message = open_writer(ctx, bucket, state, job.environment).compact_only(full_compact=fully)
        if not message.is_empty:
            yield message
        if is_told:
            job.progress.advance(sum(file.row_count for file in state.files))

    remedy = "stop the pipelines that write the table, or try again later"
    return Shares(ctx, commit, job, one, remedy).run(
        "compact", {bucket: commit.state.files_of(bucket) for bucket in due}
    )
