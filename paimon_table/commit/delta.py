"""The content of a commit: the APPEND and the COMPACT part of commit messages as manifest entries.

Implements Paimon's distribution of the content of a commit message to snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.index_file import IndexChange
from paimon_table.metadata.index_manifest import IndexEntry
from paimon_table.metadata.manifest import ADD, DELETE, ManifestEntry
from paimon_table.metadata.snapshot import CommitKind, Snapshot, SnapshotIdentity
from paimon_table.metadata.table_state import TableState


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A request to commit: the attributes that both of its snapshots share."""

    identifier: int
    properties: Mapping[str, str] = field(default_factory=dict)
    watermark: int | None = None
    started_ms: int | None = None
    """A time before the first commit of the identifier."""
    statistics: str | None = None
    """The name of a statistics file that the snapshot introduces."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The snapshots of one commit. None: the part was empty, or an earlier run published it."""

    append: Snapshot | None = None
    compact: Snapshot | None = None
    replayed: bool = False
    """Whether the APPEND part (or all of the commit) was found in the table and skipped."""
    overwrite: Snapshot | None = None
    """The snapshot of an overwrite."""
    analyze: Snapshot | None = None
    """The snapshot with new statistics."""
    is_compaction_lost: bool = False
    """Whether the COMPACT part conflicted with another writer's, and the caller continued without it."""


@dataclass(frozen=True, slots=True)
class Delta:
    """The content of a future snapshot: DELETE entries before ADD entries, and the changelog files of the same step."""

    kind: CommitKind
    entries: tuple[ManifestEntry, ...]
    changelog: tuple[ManifestEntry, ...]
    index: tuple[IndexEntry, ...] = ()
    """Index files deleted and added."""
    hashes_seen: Mapping[bytes, frozenset[tuple[int, str]]] = field(default_factory=dict)
    """By partition, the buckets and names of its HASH index files, which others must not have changed."""
    keys_seen: SnapshotIdentity | None = None
    """A snapshot after which others must not have added rows to the table."""
    seen: Mapping[BucketId, frozenset[tuple[int, str]]] = field(default_factory=dict)
    """Level and name of all files above level 0, for buckets where others must not have changed them."""
    conflict: str | None = None
    """Why the delta cannot follow the state for which it was computed; None if that is not checked yet."""

    @property
    def is_empty(self) -> bool:
        return not (self.entries or self.changelog or self.index)

    @property
    def record_count(self) -> int:
        """Stored rows added minus stored rows deleted; may be negative."""
        return sum(e.file.row_count if e.kind == ADD else -e.file.row_count for e in self.entries)

    @property
    def changelog_record_count(self) -> int:
        return sum(e.file.row_count for e in self.changelog)


DeltaAt = Callable[[TableState], Delta]
"""The changes of a snapshot that follows the given state."""


def append_delta(messages: Sequence[CommitMessage]) -> Delta:
    """New files with their changelog and their index entries."""
    added = [entry for m in messages for entry in _entries(ADD, m, m.new_files)]
    changelog = [entry for m in messages for entry in _entries(ADD, m, m.changelog_files)]
    index = [entry for m in messages for entry in _index_entries(m.bucket, m.append_index)]
    seen = {m.bucket.partition: m.append_index.seen for m in messages if m.append_index.seen is not None}
    keys_seen = min((m.append_index.keys_seen for m in messages if m.append_index.keys_seen), key=_id, default=None)
    return Delta(CommitKind.APPEND, tuple(added), tuple(changelog), tuple(index), hashes_seen=seen, keys_seen=keys_seen)


def compact_delta(messages: Sequence[CommitMessage]) -> Delta:
    """Files replaced by compaction, its changelog, and the rows that it marked as deleted."""
    deleted = [entry for m in messages for entry in _entries(DELETE, m, m.compact_before)]
    added = [entry for m in messages for entry in _entries(ADD, m, m.compact_after)]
    changelog = [entry for m in messages for entry in _entries(ADD, m, m.compact_changelog)]
    index = [entry for m in messages for entry in _index_entries(m.bucket, m.compact_index)]
    seen = {m.bucket: m.compact_seen for m in messages if m.compact_seen is not None}
    return Delta(CommitKind.COMPACT, tuple(deleted + added), tuple(changelog), tuple(index), seen=seen)


def _id(snapshot: SnapshotIdentity) -> int:
    return snapshot.id


def _entries(kind: int, message: CommitMessage, files: Iterable[DataFileMeta]) -> list[ManifestEntry]:
    return [ManifestEntry(kind, message.bucket, message.total_buckets, file) for file in files]


def _index_entries(bucket: BucketId, change: IndexChange) -> list[IndexEntry]:
    gone = [IndexEntry(DELETE, bucket, file) for file in change.before]
    return gone + [IndexEntry(ADD, bucket, file) for file in change.after]
