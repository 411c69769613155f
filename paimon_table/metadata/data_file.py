"""The metadata of one data or changelog file in the manifests, as immutable values.

Implements the ``_FILE`` record of Paimon's manifest entries. Rows inside ``min_key``, ``max_key`` and the statistics
are serialized BinaryRows (4-byte big-endian arity, then the row).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from operator import attrgetter
from typing import Any

from paimon_table.metadata.bucket_id import EMPTY_ROW


class FileSource(IntEnum):
    """What created a data file: a flush or a compaction."""

    APPEND = 0
    COMPACT = 1


@dataclass(frozen=True, slots=True)
class SimpleStats:
    """Minimum and maximum rows (serialized) and null counts of a list of columns; None in the counts means unknown."""

    min_values: bytes = EMPTY_ROW
    max_values: bytes = EMPTY_ROW
    null_counts: tuple[int | None, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """A short pickle, because tasks get the statistics of all files of a table."""
        return SimpleStats, (self.min_values, self.max_values, self.null_counts)


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
    """The columns of ``value_stats``; None means all columns, empty means no statistics."""
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None

    def at_level(self, level: int) -> DataFileMeta:
        """The same physical file on another level (an upgrade)."""
        return replace(self, level=level)

    def __reduce__(self) -> tuple[Any, ...]:
        """As for ``SimpleStats``."""
        return _data_file, _VALUES(self)


_NAMES = tuple(field.name for field in fields(DataFileMeta))
_VALUES: Callable[[DataFileMeta], tuple[Any, ...]] = attrgetter(*_NAMES)


def _data_file(*values: Any) -> DataFileMeta:
    return DataFileMeta(**dict(zip(_NAMES, values, strict=True)))
