"""The columns of a table that keeps every version of a row: the times between which a version holds, and its records.

The primary key of such a table is the key of the row, followed by the first two of these columns. The offsets of the
records order changes of one millisecond, and distinguish a repeated change from another one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paimon_table.types import DataType, Root, parse_type

HISTORY_OPTION = "tidemark.history"
"""The table option that marks such a table; its value names the columns."""

_TIME = parse_type("TIMESTAMP_LTZ(3)")
_OFFSET = DataType(Root.BIGINT)


@dataclass(frozen=True, slots=True)
class VersionColumns:
    """The names of the version columns; names of the offset columns derive from the names of the time columns."""

    valid_from: str = "valid_from"
    valid_to: str = "valid_to"
    is_current: str = "is_current"

    @property
    def from_offset(self) -> str:
        return f"{self.valid_from}_offset"

    @property
    def to_offset(self) -> str:
        return f"{self.valid_to}_offset"

    @property
    def key(self) -> tuple[str, str]:
        """The part of the primary key after the key of the row."""
        return self.valid_from, self.from_offset

    @property
    def columns(self) -> tuple[tuple[str, DataType], ...]:
        return (
            (self.valid_from, _TIME),
            (self.valid_to, _TIME),
            (self.is_current, DataType(Root.BOOLEAN)),
            (self.from_offset, _OFFSET),
            (self.to_offset, _OFFSET),
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)

    @property
    def option_value(self) -> str:
        """The value of the table option."""
        return f"scd2:{self.valid_from},{self.valid_to},{self.is_current}"

    def row_key(self, primary_key: Iterable[str]) -> tuple[str, ...]:
        """The columns of a primary key that distinguish rows, not their versions."""
        return tuple(name for name in primary_key if name not in self.key)
