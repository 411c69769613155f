"""Places in topics: partitions, how far they are read, their bounds."""

from __future__ import annotations

from dataclasses import dataclass, field

Place = tuple[str, int]
"""Topic and partition."""

Positions = dict[Place, int]
"""Per partition the offset of the next record to read."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """How far a pipeline has read, by its tables."""

    positions: Positions
    """The lowest of each partition; 0 if a table has read an earlier topic of that name."""
    ended: Positions
    """How far topics were read that were recreated since, and that no table has gone on in."""
    unread: frozenset[Place] = frozenset()
    """Partitions that some table of their topic has read nothing of; they are not among ``positions``."""
    highest: Positions = field(default_factory=dict)
    """The highest of each partition."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one partition: ``begin`` is the first offset, ``end`` the one after the last.

    ``readable_end`` is the end for our isolation level: with an open transaction it lies before ``end``.
    """

    begin: int
    readable_end: int
    end: int


@dataclass(frozen=True, slots=True)
class Reading:
    """The offsets that one task read in one partition: from ``begin`` up to ``end``, without ``gaps``.

    Gaps are (begin, end) pairs; markers of transactions and compacted records leave them too.
    """

    place: Place
    begin: int
    end: int
    gaps: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ReadOffsets:
    """The offsets that a batch has read in one partition of a topic."""

    lowest: int
    end: int
    count: int

    @property
    def is_repeated(self) -> bool:
        """Whether it has more records than offsets."""
        return self.count > self.end - self.lowest

    def __add__(self, other: ReadOffsets) -> ReadOffsets:
        return ReadOffsets(min(self.lowest, other.lowest), max(self.end, other.end), self.count + other.count)
