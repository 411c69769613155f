"""Compacts in shares of about equal size, with one COMPACT snapshot each; repeats a share after a conflict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from paimon_table.commit.commit import TableCommit
from paimon_table.errors import BucketCountChanged, CommitConflict
from paimon_table.maintenance.job import ATTEMPTS, Job
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import LiveFiles

SHARE_BYTES = 1 << 30
"""The size of the files in one snapshot, which a conflict repeats; a single place may be larger."""

Place = TypeVar("Place")
"""The unit of compaction: a bucket, or a partition."""

Compact = Callable[[LiveFiles, Place, bool], Iterable[CommitMessage]]
"""Compacts one place of the current table; the flag says whether to report its rows as progress.

Its result has only a COMPACT part. After an exception it removes its own unreturned files.
"""


@dataclass(frozen=True, slots=True)
class Compacted:
    """The changes of a job's snapshots."""

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


@dataclass(frozen=True, slots=True)
class Shares(Generic[Place]):
    """Compactions of many places of one table."""

    ctx: TableContext
    commit: TableCommit
    job: Job
    compact: Compact[Place]
    remedy: str
    """The remedy in the error if others are always faster."""

    def run(self, step: str, due: Mapping[Place, Sequence[DataFileMeta]]) -> Compacted:
        """Compact the places, which have these files; published results stay, even after a later error."""
        if due:
            self.job.progress.begin(step, sum(file.row_count for files in due.values() for file in files))
        done = Compacted()
        for share in _shares(due):
            done = self._publish(share, done)
        return done

    def _publish(self, share: Sequence[Place], done: Compacted) -> Compacted:
        """Compact a share and publish it in one snapshot."""
        for attempt in range(ATTEMPTS):
            messages: list[CommitMessage] = []
            live = self.commit.state.live_files()
            try:
                for place in share:
                    for message in self.compact(live, place, attempt == 0):
                        messages.append(message)
            except BaseException:
                # Unreferenced: no commit got files of this attempt.
                self.ctx.remove_unpublished(messages)
                raise
            try:
                result = self.commit.commit(
                    next(self.job.identifiers), messages, {}, started_ms=self.job.environment.clock_ms()
                )
            except (CommitConflict, BucketCountChanged):
                # Unreferenced: a conflict publishes nothing, nor does a commit across a rescale.
                self.ctx.remove_unpublished(messages)
                self.commit.refresh()
                continue
            return done if result.compact is None else done.with_messages(messages, result.compact.id)
        raise CommitConflict(
            f"{self.ctx.paths.root}: other jobs compacted the same files during all {ATTEMPTS} attempts; {self.remedy}"
        )


def _shares(due: Mapping[Place, Sequence[DataFileMeta]]) -> Iterator[list[Place]]:
    share: list[Place] = []
    size_bytes = 0
    for place, files in due.items():
        share.append(place)
        size_bytes += _size(files)
        if size_bytes >= SHARE_BYTES:
            yield share
            share, size_bytes = [], 0
    if share:
        yield share


def _size(files: Iterable[DataFileMeta]) -> int:
    return sum(file.file_size_bytes for file in files)
