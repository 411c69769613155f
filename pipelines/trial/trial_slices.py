"""The records that a pipeline on trial has read, as a source that tables are caught up from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from sinks.commit.positions import offsets_text
from sources.changes import RECORD_SCHEMA
from sources.kafka.offset_ranges import earlier, offsets_of
from sources.positions import Place
from sources.slices import Slice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(slots=True)
class TrialSlices:
    """The ``SliceReader`` of records in memory; positions are offsets, as in Kafka."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    _ends: dict[Place, int] = field(default_factory=dict)

    def add(self, records: pa.RecordBatch, ends: Mapping[Place, int]) -> None:
        """Take the records of a batch, and where the batch ends."""
        self.batches.append(records)
        self._ends |= ends

    def taken(self, piece: Slice, topics: Collection[str] | None) -> pa.RecordBatch:
        """The records of a slice."""
        begins, ends = _offsets(piece.begin), _offsets(piece.end)
        rows = [
            row
            for batch in self.batches
            for row in batch.to_pylist()
            if (place := (row["topic"], row["partition"])) in ends
            and begins.get(place, 0) <= row["offset"] < ends[place]
            and (topics is None or row["topic"] in topics)
        ]
        return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)

    def next(self, begin: str | None, limit: str, topics: Collection[str] | None, most_records: int) -> Slice | None:
        return Slice(begin, limit) if self.left(begin, limit, topics) else None

    def topics(self, position: str) -> frozenset[str] | None:
        return frozenset(topic for (topic, _), at in _offsets(position).items() if at > 0)

    def left(self, begin: str | None, limit: str, topics: Collection[str] | None) -> int | None:
        begins = _offsets(begin)
        ends = {place: at for place, at in _offsets(limit).items() if topics is None or place[0] in topics}
        return sum(max(0, end - begins.get(place, 0)) for place, end in ends.items())

    def missing(self, begin: str | None, limit: str, topics: Collection[str]) -> str | None:
        return None

    def position_at(self, time_ms: int, topics: Collection[str]) -> str:
        raise NotImplementedError("a trial replays nothing")

    def position_at_offsets(self, offsets: Mapping[Place, int]) -> str | None:
        return offsets_text(offsets)

    def offsets(self, position: str) -> Mapping[Place, int] | None:
        return _offsets(position)

    def earlier(self, position: str, other: str) -> str:
        return earlier(position, other)

    def ends(self, topics: Collection[str]) -> Mapping[Place, int]:
        return {place: at for place, at in self._ends.items() if place[0] in topics}

    def records(self, spark: SparkSession, piece: Slice, topics: Collection[str] | None, slots: int) -> DataFrame:
        raise NotImplementedError("a trial has no Spark")


def _offsets(position: str | None) -> dict[Place, int]:
    return {} if position is None else offsets_of(position)
