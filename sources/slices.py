"""Rereads a range of a source alongside the stream: bounded slices between two positions.

Slices bring up a table that is behind, or that is filled again. Positions are the source's texts in Spark's checkpoint;
None stands for the earliest record.
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
    """Cuts a source into slices and reads them; lives on the driver. ``topics`` None: all topics of the source."""

    def next(self, begin: str | None, limit: str, topics: Collection[str] | None, most_records: int) -> Slice | None:
        """The next slice towards ``limit`` with at most about ``most_records`` records; None if none is left.

        Raises ConfigError with the lost ranges if the source no longer has the records after ``begin``.
        """
        ...

    def topics(self, position: str) -> frozenset[str] | None:
        """The topics that the stream has read up to a position; None if the position does not name topics."""
        ...

    def left(self, begin: str | None, limit: str, topics: Collection[str] | None) -> int | None:
        """The approximate number of records between two positions; None if unknown."""
        ...

    def missing(self, begin: str | None, limit: str, topics: Collection[str]) -> str | None:
        """The ranges that the source no longer has between two positions, in words; None if it has all.

        ``begin`` None means the first record ever; ``topics`` that ``limit`` does not name count as missing.
        """
        ...

    def position_at(self, time_ms: int, topics: Collection[str]) -> str:
        """The position of the first records not older than a time, in the given topics or in all."""
        ...

    def position_at_offsets(self, offsets: Mapping[Place, int]) -> str | None:
        """The position of a table that has all records before these offsets; None if they do not determine it."""
        ...

    def offsets(self, position: str) -> Mapping[Place, int] | None:
        """A position as the next offset of each partition; None if it does not consist of offsets."""
        ...

    def earlier(self, position: str, other: str) -> str:
        """The earlier of two positions in each part of the source; ``other`` determines the parts."""
        ...

    def ends(self, topics: Collection[str]) -> Mapping[Place, int]:
        """The offset after the last record of each partition now; empty if positions do not consist of offsets."""
        ...

    def records(self, spark: SparkSession, piece: Slice, topics: Collection[str] | None, slots: int) -> DataFrame:
        """The result of ``SourceReader.stream`` for one slice: the same for each reading."""
        ...
