"""A Kafka cluster in memory: topics with ids, partitions and records, and the questions that a pipeline asks of it.

``BrokerAdmin`` answers as ``sources.kafka.admin.KafkaAdmin`` does. Nothing here knows how a pipeline works.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sources.changes import RECORD_SCHEMA
from sources.positions import Bounds, Place

BEGIN_MS = 1_700_000_000_000


def number_of(timestamp_ms: int) -> int:
    """The number of the record with this timestamp."""
    return timestamp_ms - BEGIN_MS


@dataclass
class Topic:
    """One incarnation of a topic: a topic that is deleted and recreated is another one."""

    id: str
    partitions: list[list[dict[str, Any]]]


@dataclass
class Broker:
    """The topics as they are now."""

    topics: dict[str, Topic] = field(default_factory=dict)
    _made: int = 0

    def make(self, name: str, partitions: int) -> None:
        """Make a topic; one of this name is deleted before, with all of its records."""
        self._made += 1
        self.topics[name] = Topic(f"{name}-id-{self._made}", [[] for _ in range(partitions)])

    def add_partition(self, name: str) -> None:
        self.topics[name].partitions.append([])

    def cut_off(self, name: str, partition: int, count: int) -> None:
        """Lose the last records of a partition, as with an unclean election of its leader."""
        records = self.topics[name].partitions[partition]
        del records[max(0, len(records) - count) :]

    def append(self, name: str, partition: int, key: Mapping[str, Any], value: Mapping[str, Any], number: int) -> None:
        """Produce one record; its timestamp tells its ``number``, see ``number_of``."""
        records = self.topics[name].partitions[partition]
        place = {"topic": name, "partition": partition, "offset": len(records)}
        written = {"key": json.dumps(key).encode(), "value": json.dumps(value).encode(), "headers": None}
        records.append({**place, "timestamp": (BEGIN_MS + number) * 1000, **written})

    def ends(self) -> dict[Place, int]:
        return {
            (name, number): len(records)
            for name, topic in self.topics.items()
            for number, records in enumerate(topic.partitions)
        }

    def records(self, begins: Mapping[Place, int], ends: Mapping[Place, int]) -> Iterator[pa.RecordBatch]:
        """What there still is between these offsets, one batch for each partition."""
        for place, end in sorted(ends.items()):
            name, number = place
            topic = self.topics.get(name)
            if topic is None or number >= len(topic.partitions):
                continue
            rows = topic.partitions[number][begins.get(place, 0) : end]
            if rows:
                yield pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


class BrokerAdmin:
    """Stands for ``KafkaAdmin``: the first argument, there the JVM, is the broker."""

    def __init__(self, broker: Broker, _settings: object, _patience: object = None) -> None:
        self._broker = broker

    def close(self) -> None: ...

    def topic_ids(self) -> dict[str, str]:
        return {name: topic.id for name, topic in self._broker.topics.items()}

    def bounds(self, topics: Iterable[str]) -> dict[Place, Bounds]:
        wanted = {*topics}
        return {place: Bounds(0, end, end) for place, end in self._broker.ends().items() if place[0] in wanted}

    def ends(self, topics: Iterable[str]) -> dict[Place, int]:
        return {place: held.end for place, held in self.bounds(topics).items()}

    def begins(self, places: Iterable[Place]) -> dict[Place, int]:
        return dict.fromkeys(places, 0)

    def compacted(self, topics: Iterable[str]) -> list[str]:
        return []

    def commit_group(self, group_id: str, offsets: Mapping[Place, int]) -> None: ...

    def offsets_at(self, topics: Collection[str], time_ms: int) -> dict[Place, int]:
        raise NotImplementedError("records have no times that mean anything here")
