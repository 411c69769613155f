"""Reads a stretch of a source again beside the stream: bounded pieces between two positions.

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
    """A piece of a source: its records from ``begin`` up to ``end``."""

    begin: str | None
    end: str


class SliceReader(Protocol):
    """Cuts a source into slices and reads them; lives on the driver. ``topics`` None means all that are read."""

    def next(self, begin: str | None, limit: str, topics: Collection[str] | None, most_records: int) -> Slice | None:
        """The next slice towards ``limit`` with at most about ``most_records`` records; None if none is left.

        Raises ConfigError with the lost ranges if the source no longer has the records after ``begin``.
        """
        ...

    def topics(self, position: str) -> frozenset[str] | None:
        """The topics that the stream has read up to a position; None if the position does not name topics."""
        ...

    def left(self, begin: str | None, limit: str, topics: Collection[str] | None) -> int | None:
        """About how many records are between two positions; None if unknown."""
        ...

    def missing(self, begin: str | None, limit: str, topics: Collection[str]) -> str | None:
        """The ranges that the source no longer has between two positions, in words; None if it has all.

        ``begin`` None means the first record ever; ``topics`` that ``limit`` does not know count as missing.
        """
        ...

    def position_at(self, time_ms: int, topics: Collection[str]) -> str:
        """The position of the first records that are not older than a time, in the given topics or in all."""
        ...

    def position_at_offsets(self, offsets: Mapping[Place, int]) -> str | None:
        """Where a table stands that has all before these offsets; None where they do not show it."""
        ...

    def offsets(self, position: str) -> Mapping[Place, int] | None:
        """A position as the next offset of each partition; None where it is none of offsets."""
        ...

    def earlier(self, position: str, other: str) -> str:
        """The earlier of two positions in each part of the source; ``other`` names the parts."""
        ...

    def records(self, spark: SparkSession, piece: Slice, topics: Collection[str] | None, slots: int) -> DataFrame:
        """What ``SourceReader.stream`` gives, for one slice: the same each time it is read."""
        ...
