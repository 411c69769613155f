"""The result of one bucket's writer for the committer, as an immutable value."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.index_file import NO_INDEX_CHANGE, IndexChange


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMessage:
    """The changes that one bucket writer asks the committer to publish.

    ``new_files``, ``changelog_files`` and ``append_index`` become the APPEND snapshot; the ``compact_*`` part becomes
    the COMPACT snapshot with the same commit identifier. All files are durable before the message is created.
    """

    bucket: BucketId
    total_buckets: int
    new_files: tuple[DataFileMeta, ...] = ()
    changelog_files: tuple[DataFileMeta, ...] = ()
    append_index: IndexChange = NO_INDEX_CHANGE
    compact_before: tuple[DataFileMeta, ...] = ()
    compact_after: tuple[DataFileMeta, ...] = ()
    compact_changelog: tuple[DataFileMeta, ...] = ()
    compact_index: IndexChange = NO_INDEX_CHANGE
    compact_seen: frozenset[tuple[int, str]] | None = None
    """Level and name of every file above level 0 in which the compaction looked up rows to replace.

    None: its changes stay valid even if another writer adds files above level 0.
    """
    late_row_count: int = 0
    """The number of rows that the writer left out because newer rows of their key arrived first
    (``merge.late_rows``)."""

    @property
    def made_files(self) -> tuple[DataFileMeta, ...]:
        """The files that the writer created, without earlier files that a compaction moves to another level."""
        earlier = {file.file_name for file in self.compact_before} - {file.file_name for file in self.new_files}
        named = (*self.new_files, *self.changelog_files, *self.compact_changelog, *self.compact_after)
        return tuple(file for file in named if file.file_name not in earlier)

    @property
    def has_append(self) -> bool:
        return bool(self.new_files or self.changelog_files) or not self.append_index.is_empty

    @property
    def has_compact(self) -> bool:
        files = self.compact_before or self.compact_after or self.compact_changelog
        return bool(files) or not self.compact_index.is_empty

    @property
    def is_empty(self) -> bool:
        return not (self.has_append or self.has_compact)
