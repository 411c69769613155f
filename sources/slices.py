"""Reading a stretch of a source again beside the stream: bounded pieces between two positions.

A table that is behind, or that is to be filled again, is brought up with them. Positions are the texts in which Spark's
checkpoint keeps them for the source; None stands for the first record that there is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sources.positions import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Slice:
    """A piece of a source: what lies from ``begin`` up to ``end``."""

    begin: str | None
    end: str


class SliceReader(Protocol):
    """Cuts a source into slices and reads them; lives on the driver. ``topics`` None means all that are read."""

    def next(self, begin: str | None, limit: str, topics: Collection[str] | None, most_records: int) -> Slice | None:
        """The next slice towards ``limit`` with about ``most_records`` records at most; None when there is none left.

        Raises ConfigError with the ranges lost when the source no longer has what lies behind ``begin``.
        """
        ...

    def topics(self, position: str) -> frozenset[str] | None:
        """The topics that the stream has read records of, at a position of it; None when it does not name them."""
        ...

    def left(self, begin: str | None, limit: str, topics: Collection[str] | None) -> int | None:
        """How many records lie between two positions, about; None when that is not known."""
        ...

    def missing(self, begin: str | None, limit: str, topics: Collection[str]) -> str | None:
        """What the source no longer has between two positions, in words; None when all of it is there.

        ``begin`` None stands for the first record that there ever was; ``topics`` that ``limit`` does not know count as
        missing.
        """
        ...

    def position_at(self, time_ms: int, topics: Collection[str]) -> str:
        """Where the first records lie that are not older than a time, in the topics given or in all that are read."""
        ...

    def position_at_offsets(self, offsets: Mapping[Place, int]) -> str | None:
        """Where a table stands that has all before these offsets; None where they do not show it."""
        ...

    def offsets(self, position: str) -> Mapping[Place, int] | None:
        """A position as the next offset of each partition; None where it is none of offsets."""
        ...

    def earlier(self, position: str, other: str) -> str:
        """Of two positions the earlier one in each part of the source; ``other`` says what parts there are."""
        ...

    def records(self, spark: SparkSession, piece: Slice, topics: Collection[str] | None, slots: int) -> DataFrame:
        """What ``SourceReader.stream`` gives, for one slice: the same each time it is read."""
        ...
