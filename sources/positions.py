"""Places in topics: partitions, how far they are read, what they hold."""

from __future__ import annotations

from dataclasses import dataclass

Place = tuple[str, int]
"""Topic and partition."""

Positions = dict[Place, int]
"""Per partition the offset of the next record to read."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one partition holds: ``begin`` is the first offset, ``end`` the one after the last.

    ``readable_end`` is the end for our isolation level: with an open transaction it lies before ``end``.
    """

    begin: int
    readable_end: int
    end: int
