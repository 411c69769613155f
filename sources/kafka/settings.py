"""The settings of Kafka in a pipeline file, as plain values, and default client properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from sources.positions import Place
from sources.topics import TopicSelection

EARLIEST, LATEST = -2, -1
"""Spark's words for the first offset of a partition and for the one after its last record."""

Start: TypeAlias = str | datetime | Mapping[Place, int]
"""The start of a new checkpoint: ``earliest`` or ``latest``, a moment, or the offsets of partitions.

Offsets may be ``EARLIEST`` or ``LATEST``. Other partitions start at the earliest record.
"""

READER_DEFAULTS: Mapping[str, str] = {
    "max.poll.records": "10000",
    "fetch.max.wait.ms": "10",
    "fetch.max.bytes": str(64 << 20),
    "isolation.level": "read_committed",
}
"""Client properties that differ from Kafka's own defaults; properties in the pipeline file override them.

Spark asks for the ends of the partition with every poll, so polls should be few. That request waits for a fetch that
the client has already sent. At the end of a partition the broker holds such a fetch back for ``fetch.max.wait.ms``:
half a second of every batch by Kafka's default. A read ends where the batch does and nothing polls between batches, so
a short wait costs no fetches of an idle pipeline. Records of aborted transactions never happened; Spark looks the ends
of partitions up with the same isolation level.

``max.partition.fetch.bytes`` comes from ``fetch_bytes``.
"""

API_TIMEOUT_S = 60
"""Kafka's own default of ``default.api.timeout.ms``."""

FETCH_PROPERTY = "max.partition.fetch.bytes"

_FETCHED_BYTES = 256 << 20
_LEAST_FETCH_BYTES, _MOST_FETCH_BYTES = 1 << 20, 16 << 20
_CONSUMERS = 64


def fetch_bytes(partition_count: int) -> int:
    """The size of one fetch from a partition.

    Spark keeps up to 64 consumers, one per partition. Each keeps all that it has fetched, also in advance, however
    small a batch is. The heap must hold all of this: the more partitions, the smaller a fetch.
    """
    share = _FETCHED_BYTES // max(1, min(_CONSUMERS, partition_count))
    return max(_LEAST_FETCH_BYTES, min(_MOST_FETCH_BYTES, share))


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """A cluster and the topics that a pipeline reads from it."""

    servers: str
    """Comma-separated host:port pairs."""
    topics: TopicSelection
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """All properties of Kafka's client under their own names. Includes passwords."""
    start: Start = "earliest"
    max_records_per_batch: int = 500_000
    group_id: str | None = None
    """The consumer group whose offsets show the progress of the tables; None: nothing is committed to Kafka."""
    is_direct: bool = False
    """Whether the decode tasks fetch records with librdkafka, which the driver then uses too."""
    goes_on_after_loss: bool = False
    """Whether lost records are reported and skipped (``on_data_loss: continue``)."""

    @property
    def isolation_level(self) -> str:
        return self.properties.get("isolation.level", READER_DEFAULTS["isolation.level"])

    @property
    def patience_s(self) -> float:
        """How long a batch waits for Kafka."""
        given = self.properties.get("default.api.timeout.ms", "")
        return int(given) / 1000 if given.isdigit() else API_TIMEOUT_S

    def reader_options(self, slots: int, partition_count: int) -> dict[str, str]:
        """Options of Spark's reader for this many partitions, without the start; ``slots`` tasks run in parallel."""
        defaults = {**READER_DEFAULTS, FETCH_PROPERTY: str(fetch_bytes(partition_count))}
        options = {f"kafka.{name}": value for name, value in {**defaults, **self.properties}.items()}
        options |= {
            "kafka.bootstrap.servers": self.servers,
            "maxOffsetsPerTrigger": str(self.max_records_per_batch),
            "minPartitions": str(slots),
            "includeHeaders": "true",
            "failOnDataLoss": "false" if self.goes_on_after_loss else "true",
        }
        if self.topics.names:
            options["subscribe"] = ",".join(self.topics.names)
        else:
            options["subscribePattern"] = self.topics.subscribe_pattern()
        return options

    def begins_at_or_beyond(self, held: Mapping[Place, int]) -> bool:
        """Whether ``start`` is certainly nowhere below the offsets ``held``, so that nothing is read twice."""
        if isinstance(self.start, str | datetime):
            return False
        starts = {place: self.start.get(place, EARLIEST) for place in held}
        return all(starts[place] == LATEST or starts[place] >= at for place, at in held.items())
