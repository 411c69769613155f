"""What the manifests say about one data or changelog file, as immutable values.

Implements the ``_FILE`` record of Paimon's manifest entries and the commit message that a bucket writer hands to the
committer. Rows inside ``min_key``, ``max_key`` and the statistics are serialized BinaryRows (4-byte big-endian arity,
then the row).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from paimon_table.index_file import NO_INDEX_CHANGE, IndexChange

SEQUENCE_NUMBER = "_SEQUENCE_NUMBER"
"""Column of every stored row: arrival order inside its bucket (int64)."""

VALUE_KIND = "_VALUE_KIND"
"""Column of every stored row: its RowKind as int8."""

KEY_PREFIX = "_KEY_"
"""Prefix of the copies of the trimmed primary key columns in data files."""

POSTPONED = -2
"""Bucket of rows that wait for a compaction of Java Paimon's to get a bucket; no reader shows them before."""

EMPTY_ROW = bytes(12)
"""The serialized row without fields: partition of an unpartitioned table, empty statistics."""


class RowKind(IntEnum):
    """Kind of a row; UPDATE_BEFORE and DELETE are the retracts."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def short(self) -> str:
        return ("+I", "-U", "+U", "-D")[self]


class FileSource(IntEnum):
    """Who made a data file: a flush or a compaction."""

    APPEND = 0
    COMPACT = 1


@dataclass(frozen=True, slots=True)
class SimpleStats:
    """Minimum and maximum rows (serialized) and null counts of a list of columns; None in the counts means unknown."""

    min_values: bytes = EMPTY_ROW
    max_values: bytes = EMPTY_ROW
    null_counts: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileMeta:
    """Metadata of one file. ``level``, name, extra files and embedded index are part of its identity."""

    file_name: str
    file_size_bytes: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_stats: SimpleStats
    value_stats: SimpleStats
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    creation_time_ms: int | None = None
    """Milliseconds of the local wall clock, as Java's LocalDateTime read as if it were UTC."""
    delete_row_count: int | None = None
    embedded_index: bytes | None = None
    file_source: int | None = None
    value_stats_cols: tuple[str, ...] | None = None
    """Columns of ``value_stats``; None stands for all columns, empty for no statistics."""
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None

    def at_level(self, level: int) -> DataFileMeta:
        """The same physical file on another level (an upgrade)."""
        return replace(self, level=level)


@dataclass(frozen=True, slots=True)
class BucketId:
    """One (partition, bucket) of a table; ``partition`` is the serialized row of the partition columns."""

    partition: bytes
    bucket: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMessage:
    """What one bucket writer asks the committer to publish.

    ``new_files`` and ``changelog_files`` become the APPEND snapshot; the ``compact_*`` part becomes the COMPACT
    snapshot with the same commit identifier. Files are durable before the message exists.
    """

    bucket: BucketId
    total_buckets: int
    new_files: tuple[DataFileMeta, ...] = ()
    changelog_files: tuple[DataFileMeta, ...] = ()
    compact_before: tuple[DataFileMeta, ...] = ()
    compact_after: tuple[DataFileMeta, ...] = ()
    compact_changelog: tuple[DataFileMeta, ...] = ()
    compact_index: IndexChange = NO_INDEX_CHANGE
    compact_seen: frozenset[tuple[int, str]] | None = None
    """Level and name of every file above level 0 in which the compaction looked for the rows that it replaces.

    None: what it did holds whatever else others put above level 0.
    """

    @property
    def has_append(self) -> bool:
        return bool(self.new_files or self.changelog_files)

    @property
    def has_compact(self) -> bool:
        files = self.compact_before or self.compact_after or self.compact_changelog
        return bool(files) or not self.compact_index.is_empty

    @property
    def is_empty(self) -> bool:
        return not (self.has_append or self.has_compact)
