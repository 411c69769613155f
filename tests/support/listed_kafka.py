"""A list of records read as the topics of a broker are: positions are offsets per partition, without a broker."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import pyarrow as pa

from sources.changes import RECORD_SCHEMA
from sources.kafka.admin import KafkaAdmin
from sources.kafka.offset_ranges import offsets_of
from sources.kafka.settings import KafkaSettings
from sources.kafka.slices import KafkaSlices
from sources.positions import Bounds, Place
from sources.slices import Slice
from sources.topics import TopicSelection
from tests.support.item_batches import event, records


class ListedKafka(KafkaSlices):
    """Slices of records of several topics, whose stream passes them in the order of the list."""

    def __init__(self, records: pa.RecordBatch) -> None:
        self._records = records
        self._rows = records.select(["topic", "partition", "offset"]).to_pylist()
        admin = _Admin(_ends(self._rows))

        @contextmanager
        def asked() -> Iterator[KafkaAdmin]:
            yield cast(KafkaAdmin, admin)

        super().__init__(KafkaSettings("localhost:1", TopicSelection()), asked, lambda _: None)

    def next(self, begin: str | None, limit: str, topics: Collection[str] | None, most_records: int) -> Slice | None:
        return super().next(self._of_kafka(begin), str(self._of_kafka(limit)), topics, most_records)

    def topics(self, position: str) -> frozenset[str] | None:
        return super().topics(str(self._of_kafka(position)))

    def left(self, begin: str | None, limit: str, topics: Collection[str] | None) -> int | None:
        return super().left(self._of_kafka(begin), str(self._of_kafka(limit)), topics)

    def offsets(self, position: str) -> Mapping[Place, int] | None:
        return super().offsets(str(self._of_kafka(position)))

    def taken(self, piece: Slice, topics: Collection[str] | None) -> pa.RecordBatch:
        begins, ends = offsets_of(self._of_kafka(piece.begin) or "{}"), offsets_of(str(self._of_kafka(piece.end)))
        keeps = []
        for row in self._rows:
            place = (row["topic"], row["partition"])
            is_wanted = topics is None or row["topic"] in topics
            keeps.append(is_wanted and begins.get(place, 0) <= row["offset"] < ends.get(place, 0))
        return self._records.filter(pa.array(keeps, pa.bool_()))

    def _of_kafka(self, position: str | None) -> str | None:
        """The place in the list, where the stream is at one, by partitions."""
        at = None if position is None else json.loads(position).get("at")
        if not isinstance(at, int):
            return position
        nested: dict[str, dict[str, int]] = {}
        for (topic, partition), end in _ends(self._rows[:at]).items():
            nested.setdefault(topic, {})[str(partition)] = end
        return json.dumps(nested)


class _Admin:
    def __init__(self, ends: Mapping[Place, int]) -> None:
        self._ends = ends

    def topic_ids(self) -> dict[str, str]:
        return {topic: f"id of {topic}" for topic, _ in self._ends}

    def bounds(self, names: Collection[str]) -> dict[Place, Bounds]:
        return {place: Bounds(0, end, end) for place, end in self._ends.items() if place[0] in names}


def _ends(rows: list[dict[str, Any]]) -> dict[Place, int]:
    ends: dict[Place, int] = {}
    for row in rows:
        place = (row["topic"], row["partition"])
        ends[place] = max(row["offset"] + 1, ends.get(place, 0))
    return ends


def listed(*places: tuple[str, int]) -> pa.RecordBatch:
    """Inserts of the rows 0, 1, ... with amount 1, each of a table, and so a topic, and a partition."""
    rows, ends = [], dict[tuple[str, int], int]()
    for key, (table, partition) in enumerate(places):
        (row,) = records(event("c", key, {"id": key, "amount": 1}, table=table)).to_pylist()
        offset = ends.setdefault((table, partition), 0)
        ends[table, partition] += 1
        rows.append({**row, "topic": f"shop.public.{table}", "partition": partition, "offset": offset})
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)
