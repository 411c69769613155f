"""Compacting a table in a job of its own, bucket by bucket, beside whoever writes it.

Publishes COMPACT snapshots with the changelog that the compactions find, as a writer of the table would have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from paimon_table.commit.commit import TableCommit
from paimon_table.errors import BucketCountChanged, CommitConflict
from paimon_table.maintenance.job import ATTEMPTS, Job, remove_unpublished
from paimon_table.metadata.bucket_id import POSTPONED, BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import TableState
from paimon_table.table import Table
from paimon_table.write.writer import open_writer

SHARE_BYTES = 1 << 30
"""Size of the files that are compacted for one snapshot: what a conflict with another writer makes to be done anew."""

Chosen = Callable[[bytes], bool]
"""Whether a partition, by its serialized row, is meant."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What the snapshots of a job changed."""

    buckets: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    snapshot_ids: tuple[int, ...] = ()

    def with_messages(self, messages: Sequence[CommitMessage], snapshot_id: int) -> Compacted:
        before = [file for message in messages for file in message.compact_before]
        after = [file for message in messages for file in message.compact_after]
        return Compacted(
            self.buckets + sum(bool(message.compact_after) for message in messages),
            self.files_before + len(before),
            self.files_after + len(after),
            self.bytes_before + _size(before),
            self.bytes_after + _size(after),
            (*self.snapshot_ids, snapshot_id),
        )


def compact(table: Table, job: Job, chosen: Chosen, *, fully: bool) -> Compacted:
    """Compact the buckets of the chosen partitions: as their strategy wants it, or all of each into its highest level.

    CommitConflict when others keep changing the same files; what was published until then stays, also after other
    exceptions.
    """
    commit = job.commit_to(table)
    state = commit.refresh()
    due = [bucket for bucket in state.files if bucket.bucket != POSTPONED and chosen(bucket.partition)]
    job.progress.begin("compact", sum(_rows(state, bucket) for bucket in due))
    done = Compacted()
    for share in _shares(state, due):
        done = _compact_share(compacting(table.context), commit, share, job, fully, done)
    return done


def compact_pending(table: Table, job: Job, chosen: Chosen) -> Compacted:
    """Compact what readers of the table or of its changelog wait for, whatever patience its options have."""
    options = table.options
    fully = options.changelog_producer == "full-compaction"
    if not fully and not options.needs_lookup:
        return Compacted()
    commit = job.commit_to(table)
    due = [bucket for bucket in unseen(table, commit.refresh()) if chosen(bucket.partition)]
    job.progress.begin("compact", sum(_rows(commit.state, bucket) for bucket in due))
    done = Compacted()
    ctx = compacting(table.context)
    ctx = replace(ctx, options=replace(ctx.options, lookup_compact="radical"))
    for share in _shares(commit.state, due):
        done = _compact_share(ctx, commit, share, job, fully, done)
    return done


def unseen(table: Table, state: TableState) -> list[BucketId]:
    """The buckets with rows that compaction has not shown yet to readers of the table or of its changelog."""
    options = replace(table.options, lookup_compact="radical")
    if options.changelog_producer == "full-compaction":
        due = table.due_compactions(state, fully=True, is_appended=True)
    elif options.needs_lookup:
        due = tuple(bucket for bucket, files in state.files.items() if any(file.level == 0 for file in files))
    else:
        due = ()
    return [bucket for bucket in due if bucket.bucket != POSTPONED]


def compacting(ctx: TableContext) -> TableContext:
    """The table as a job sees that is there to compact it: ``write-only`` is for the others."""
    return replace(ctx, options=replace(ctx.options, write_only=False))


def _compact_share(
    ctx: TableContext, commit: TableCommit, buckets: Collection[BucketId], job: Job, fully: bool, done: Compacted
) -> Compacted:
    """One snapshot; done anew while others are faster."""
    for attempt in range(ATTEMPTS):
        messages: list[CommitMessage] = []
        live = commit.state.live_files()
        try:
            for bucket in buckets:
                message = open_writer(ctx, bucket, live.of(bucket), job.environment).compact_only(full_compact=fully)
                if not message.is_empty:
                    messages.append(message)
                if attempt == 0:
                    job.progress.advance(_rows(commit.state, bucket))
        except BaseException:
            # Unreferenced: nothing of this attempt was given to a commit.
            remove_unpublished(ctx, messages)
            raise
        try:
            result = commit.commit(next(job.identifiers), messages, {}, started_ms=job.environment.clock_ms())
        except (CommitConflict, BucketCountChanged):
            # Unreferenced: a conflict publishes nothing, nor does a commit across a rescale.
            remove_unpublished(ctx, messages)
            commit.refresh()
            continue
        snapshot = result.compact
        return done if snapshot is None else done.with_messages(messages, snapshot.id)
    raise CommitConflict(
        f"{ctx.paths.root}: others have compacted the same files {ATTEMPTS} times meanwhile; stop the pipelines that "
        "write the table, or try again later"
    )


def _shares(state: TableState, buckets: Sequence[BucketId]) -> Iterator[list[BucketId]]:
    share: list[BucketId] = []
    size_bytes = 0
    for bucket in buckets:
        share.append(bucket)
        size_bytes += _size(state.files_of(bucket))
        if size_bytes >= SHARE_BYTES:
            yield share
            share, size_bytes = [], 0
    if share:
        yield share


def _rows(state: TableState, bucket: BucketId) -> int:
    return sum(file.row_count for file in state.files_of(bucket))


def _size(files: Sequence[DataFileMeta]) -> int:
    return sum(file.file_size_bytes for file in files)
