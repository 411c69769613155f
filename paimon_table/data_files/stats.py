"""Minimum, maximum and null count of columns, as the manifests keep them for files.

Implements Paimon's SimpleStats: the modes ``none``, ``counts``, ``truncate(n)`` and ``full``, the dense store that
leaves out columns without statistics, and key statistics. Ranges of several parts of a file can be merged before
serialization, so a file may be written in chunks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import ConfigError
from paimon_table.metadata.bucket_id import EMPTY_ROW
from paimon_table.metadata.data_file import SimpleStats
from paimon_table.options.table_options import TableOptions
from paimon_table.rows.binary_row import python_value, raw_field, serialize_row
from paimon_table.types import DataField, DataType, Root

KEY_STATS_LENGTH = 128
"""The length of the bounds of key columns, in characters or bytes."""

_FLOATS = frozenset({Root.FLOAT, Root.DOUBLE})
_TEMPORAL = frozenset({Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ})
_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True)
class StatsMode:
    """The statistics of one column: none, the null count, or also bounds, cut to ``length`` (None: uncut)."""

    counts: bool
    bounds: bool
    length: int | None = None


_MODES = {"none": StatsMode(False, False), "counts": StatsMode(True, False), "full": StatsMode(True, True)}
_TRUNCATE = re.compile(r"truncate\((\d+)\)")


def stats_mode(text: str) -> StatsMode:
    """Parse a value of ``metadata.stats-mode``."""
    normal = text.strip().lower()
    truncated = _TRUNCATE.fullmatch(normal)
    if truncated and int(truncated[1]) > 0:
        return StatsMode(True, True, int(truncated[1]))
    if normal not in _MODES:
        raise ConfigError(f"statistics mode {text!r} is unknown; use none, counts, truncate(n) or full")
    return _MODES[normal]


def column_modes(
    fields: Sequence[DataField], options: TableOptions, default_mode: str | None = None
) -> tuple[StatsMode, ...]:
    """The mode of each value column, from the table's options; ``default_mode`` replaces the table's default."""
    default = stats_mode(default_mode or options.stats_mode)
    by_name = {name: stats_mode(mode) for name, mode in options.field_options.stats_modes}
    kept = options.stats_keep_first_n_columns
    return tuple(
        by_name.get(f.name, default if kept < 0 or position < kept else _MODES["none"])
        for position, f in enumerate(fields)
    )


# ---------------------------------------------------------------- ranges


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """Exact bounds of a column's values (None: no value, or unknown) and its number of NULLs.

    Bounds are in the form for ``serialize_row``. ``known`` is False for types without an order and for columns with
    NaN, whose bounds are no use for pruning.
    """

    minimum: Any
    maximum: Any
    null_count: int
    known: bool = True

    def with_more(self, other: ColumnRange) -> ColumnRange:
        """The range of both parts."""
        nulls = self.null_count + other.null_count
        if not (self.known and other.known):
            return ColumnRange(None, None, nulls, known=False)
        if self.minimum is None or other.minimum is None:
            bounds = other if self.minimum is None else self
            return ColumnRange(bounds.minimum, bounds.maximum, nulls)
        return ColumnRange(min(self.minimum, other.minimum), max(self.maximum, other.maximum), nulls)


def column_range(column: pa.ChunkedArray, t: DataType, is_sorted: bool = False) -> ColumnRange:
    """Range of a column; ``is_sorted``: it ascends in Paimon's key order, NULLs first."""
    nulls = column.null_count
    if t.is_nested:
        return ColumnRange(None, None, nulls, known=False)
    if nulls == len(column):
        return ColumnRange(None, None, nulls)
    if is_sorted and t.root not in _FLOATS:
        return ColumnRange(_scalar_value(column[nulls], t), _scalar_value(column[-1], t), nulls)
    if t.root in _FLOATS and pc.any(pc.is_nan(column)).as_py():
        return ColumnRange(None, None, nulls, known=False)
    bounds = pc.min_max(column)
    minimum, maximum = _scalar_value(bounds["min"], t), _scalar_value(bounds["max"], t)
    if t.root in _FLOATS:
        # Zeros of both signs are equal in Arrow but not in Paimon, so the bounds must include both.
        minimum, maximum = minimum or -0.0, maximum or 0.0
    return ColumnRange(minimum, maximum, nulls)


def _scalar_value(scalar: pa.Scalar, t: DataType) -> Any:
    return scalar.value if t.root in _TEMPORAL else scalar.as_py()


def column_ranges(
    table: pa.Table, fields: Sequence[DataField], sorted_by: str | None = None
) -> tuple[ColumnRange, ...]:
    """Range of each field's column; ``sorted_by`` names the column that leads the sort order of the rows."""
    return tuple(column_range(table.column(f.name), f.type, f.name == sorted_by) for f in fields)


# ---------------------------------------------------------------- SimpleStats


def value_stats(
    table: pa.Table, fields: Sequence[DataField], mode: str = "truncate(16)", dense: bool = True
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """Statistics of the fields' columns and ``_VALUE_STATS_COLS``, with one mode for all columns."""
    return stats_of_ranges(column_ranges(table, fields), fields, (stats_mode(mode),) * len(fields), dense)


def stats_of_ranges(
    ranges: Sequence[ColumnRange], fields: Sequence[DataField], modes: Sequence[StatsMode], dense: bool = True
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """Statistics and ``_VALUE_STATS_COLS``, which is None if all columns are kept.

    Dense statistics leave out columns of mode ``none`` and of nested types; others contain them as unknown.
    """
    collected = [_collected(*column) for column in zip(ranges, fields, modes, strict=True)]
    kept = [position for position, column in enumerate(collected) if not dense or column != _NOTHING]
    names = None if len(kept) == len(fields) else tuple(fields[position].name for position in kept)
    types = [fields[position].type for position in kept]
    return SimpleStats(
        serialize_row([collected[position][0] for position in kept], types) if kept else EMPTY_ROW,
        serialize_row([collected[position][1] for position in kept], types) if kept else EMPTY_ROW,
        tuple(collected[position][2] for position in kept),
    ), names


def key_stats(ranges: Sequence[ColumnRange], fields: Sequence[DataField]) -> SimpleStats:
    """Statistics of the trimmed primary key: all its columns, bounds cut to KEY_STATS_LENGTH."""
    mode = StatsMode(True, True, KEY_STATS_LENGTH)
    return stats_of_ranges(ranges, fields, (mode,) * len(fields), dense=False)[0]


def united_stats(parts: Sequence[tuple[SimpleStats, int]], fields: Sequence[DataField]) -> SimpleStats:
    """Statistics of several files together, each given with its number of rows; all are of the same ``fields``."""
    columns = [_united(position, field, parts) for position, field in enumerate(fields)]
    types = [field.type for field in fields]
    return SimpleStats(
        serialize_row([column[0] for column in columns], types) if columns else EMPTY_ROW,
        serialize_row([column[1] for column in columns], types) if columns else EMPTY_ROW,
        tuple(column[2] for column in columns),
    )


def _united(position: int, field: DataField, parts: Sequence[tuple[SimpleStats, int]]) -> tuple[Any, Any, int | None]:
    """Minimum, maximum and null count of one column; a value unknown in one part is unknown."""
    counts = [stats.null_counts[position] for stats, _ in parts]
    known = [count for count in counts if count is not None]
    nulls = sum(known) if len(known) == len(counts) else None
    valued = [stats for (stats, row_count), count in zip(parts, counts, strict=True) if count != row_count]
    lows = [raw_field(stats.min_values, position, field.type) for stats in valued]
    highs = [raw_field(stats.max_values, position, field.type) for stats in valued]
    if not valued or None in lows or None in highs:
        return None, None, nulls
    return python_value(min(lows), field.type), python_value(max(highs), field.type), nulls


_NOTHING = (None, None, None)


def _collected(column: ColumnRange, field: DataField, mode: StatsMode) -> tuple[Any, Any, int | None]:
    """Minimum, maximum and null count, as far as the mode keeps them."""
    if not mode.counts or field.type.is_nested:
        return _NOTHING
    if not mode.bounds:
        return None, None, column.null_count
    minimum, maximum = column.minimum, column.maximum
    if mode.length is not None and isinstance(maximum, str | bytes):
        minimum, maximum = minimum[: mode.length], _upper_bound(maximum, mode.length)
    return (None if maximum is None else minimum), maximum, column.null_count


def _upper_bound(value: str | bytes, length: int) -> str | bytes | None:
    """A short value that is not smaller than ``value``; None if there is none of this length."""
    if len(value) <= length:
        return value
    return _next_text(value[:length]) if isinstance(value, str) else _next_bytes(value[:length])


def _next_text(prefix: str) -> str | None:
    while prefix:
        following = ord(prefix[-1]) + 1
        prefix = prefix[:-1]
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _LAST_CODE_POINT:
            return prefix + chr(following)
    return None


def _next_bytes(prefix: bytes) -> bytes | None:
    prefix = prefix.rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None
