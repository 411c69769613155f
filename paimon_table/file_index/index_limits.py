"""The limits of a bloom filter, and its size. Pure and without Arrow, so that options can be checked with it."""

from __future__ import annotations

import math

from paimon_table.types import BINARIES, CHARACTERS, TIMESTAMPS, DataType, Root

MOST_BITS = (1 << 31) - 8
"""Java counts the bits in an Integer."""

LONGS = frozenset({Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.DATE, Root.TIME, *TIMESTAMPS})
"""Types that are hashed as 64-bit integers."""


def bits_for(items: int, fpp: float) -> int:
    """The number of bits of a filter, a multiple of 8. As in Paimon, it is at least one more than needed."""
    bits = int(-items * math.log(fpp) / (math.log(2) * math.log(2)))
    return bits + 8 - bits % 8


def can_be_hashed(t: DataType) -> bool:
    """Whether Paimon has bloom filters for the type; it has none for BOOLEAN, DECIMAL and nested types."""
    return t.root in LONGS | CHARACTERS | BINARIES | {Root.FLOAT, Root.DOUBLE}
