"""What a commit will publish: the APPEND and the COMPACT part of commit messages as manifest entries.

Implements Paimon's rule which content of a commit message goes into which snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from paimon_table.data_file import CommitMessage, DataFileMeta
from paimon_table.manifest import ADD, DELETE, ManifestEntry
from paimon_table.snapshot import CommitKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One request to commit; the attributes that both of its snapshots share."""

    identifier: int
    properties: Mapping[str, str] = field(default_factory=dict)
    watermark: int | None = None
    started_ms: int | None = None
    """A time at which the identifier had certainly not been committed yet."""


@dataclass(frozen=True, slots=True)
class Delta:
    """One snapshot to be: DELETE entries before ADD entries, and the changelog files of the same step."""

    kind: CommitKind
    entries: tuple[ManifestEntry, ...]
    changelog: tuple[ManifestEntry, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.entries or self.changelog)

    @property
    def record_count(self) -> int:
        """Stored rows added minus stored rows deleted; may be negative."""
        return sum(e.file.row_count if e.kind == ADD else -e.file.row_count for e in self.entries)

    @property
    def changelog_record_count(self) -> int:
        return sum(e.file.row_count for e in self.changelog)


def append_delta(messages: Sequence[CommitMessage]) -> Delta:
    """New files with their changelog."""
    added = [entry for m in messages for entry in _entries(ADD, m, m.new_files)]
    changelog = [entry for m in messages for entry in _entries(ADD, m, m.changelog_files)]
    return Delta(CommitKind.APPEND, tuple(added), tuple(changelog))


def compact_delta(messages: Sequence[CommitMessage]) -> Delta:
    """Files replaced by compaction and the changelog that it found."""
    deleted = [entry for m in messages for entry in _entries(DELETE, m, m.compact_before)]
    added = [entry for m in messages for entry in _entries(ADD, m, m.compact_after)]
    changelog = [entry for m in messages for entry in _entries(ADD, m, m.compact_changelog)]
    return Delta(CommitKind.COMPACT, tuple(deleted + added), tuple(changelog))


def _entries(kind: int, message: CommitMessage, files: Iterable[DataFileMeta]) -> list[ManifestEntry]:
    return [ManifestEntry(kind, message.bucket, message.total_buckets, file) for file in files]
