"""Reads a sample of the topics of a Kafka cluster, without a JVM, and without writing anything.

Requests go through ``DirectAdmin``; records are read as in decode tasks. No offset is committed and no consumer group
is joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import pyarrow as pa

from paimon_table.errors import ConfigError
from sources.changes import RECORD_SCHEMA
from sources.kafka.client_properties import Unmappable, librdkafka_properties
from sources.kafka.direct_admin import DirectAdmin
from sources.kafka.failures import NotAllowed
from sources.kafka.offset_ranges import OffsetRange, ranges_of, to_bytes
from sources.kafka.settings import LATEST, KafkaSettings
from sources.kafka.share_fetching import KafkaShareReader
from sources.positions import Place, Positions
from sources.samples import Sample, TopicFacts

WAIT_S = 10
"""The most seconds for an answer, and for a read without any record."""
_PATIENCE = {"default.api.timeout.ms": f"{WAIT_S}000", "request.timeout.ms": f"{WAIT_S}000"}
_ORDER = [(name, "ascending") for name in ("topic", "partition", "offset")]


class KafkaSampler:
    """Inspects one cluster; every method raises the errors of ``kafka_failure``."""

    def __init__(self, kafka: KafkaSettings) -> None:
        """Raises ConfigError if librdkafka cannot connect with the properties of the source."""
        self._kafka = kafka
        try:
            properties = librdkafka_properties(kafka.servers, kafka.properties)
            self._admin = DirectAdmin(kafka, _PATIENCE)
        except Unmappable as found:
            raise ConfigError(
                f"source.kafka.options: {found}. `tidemark run` reads with Java's client; `plan` and `init` do not"
            ) from None
        # Records that disappear in the meantime are missing in the sample; nothing else is affected.
        self._reader = KafkaShareReader(kafka.servers, properties, goes_on_after_loss=True, patience_s=WAIT_S)

    def topics(self) -> dict[str, int]:
        """The partition counts of every topic that this user may see, except Kafka's own."""
        return self._admin.places()

    def facts(self, topics: Mapping[str, int]) -> dict[str, TopicFacts]:
        """The offsets that Kafka has of these topics, with their partition counts and retention."""
        bounds = self._admin.bounds_of([(name, p) for name, count in topics.items() for p in range(count)])
        configs = self._admin.configs(topics)
        found = {}
        for name in topics:
            config = configs.get(name, {})
            retention_ms = int(config.get("retention.ms", -1))
            is_compacted = "compact" in config["cleanup.policy"] if "cleanup.policy" in config else None
            of_topic = {place: held for place, held in bounds.items() if place[0] == name}
            found[name] = TopicFacts(of_topic, is_compacted, retention_ms if retention_ms >= 0 else None)
        return found

    def begins(self, facts: Mapping[str, TopicFacts]) -> Positions:
        """The begin of a run with a new checkpoint; partitions without one begin at their first record."""
        held = {place: bounds for of_topic in facts.values() for place, bounds in of_topic.bounds.items()}
        match self._kafka.start:
            case "latest":
                return {place: bounds.readable_end for place, bounds in held.items()}
            case datetime() as moment:
                return self._admin.offsets_at(facts, int(moment.timestamp() * 1000))
            case str():
                return {}
            case chosen:
                ends = {place: held[place].readable_end for place in chosen if place in held}
                return {p: end if chosen[p] == LATEST else max(chosen[p], 0) for p, end in ends.items()}

    def sample(self, facts: Mapping[str, TopicFacts], most: int, begins: Positions | None = None) -> Sample:
        """At most ``most`` records of each topic: the first ones to read, and the newest.

        ``begins`` has the begin in partitions that were read before; if nothing is new in a topic, its newest are
        sampled.
        """
        first, last = list[OffsetRange](), list[OffsetRange]()
        for of_topic in facts.values():
            share = max(1, most // (2 * max(1, len(of_topic.bounds))))
            is_finished = of_topic.is_finished(begins or {})
            for place, held in of_topic.bounds.items():
                at = min(max((begins or {}).get(place, held.begin), held.begin), held.readable_end)
                end = min(at + share, held.readable_end)
                newest = max(held.readable_end - share, held.begin)
                behind = newest if is_finished else max(newest, end)
                first += _range(place, at, end)
                last += _range(place, behind, held.readable_end)
        unreadable: dict[str, str] = {}
        batches = [self._read(ranges, unreadable) for ranges in (first, last)]
        counts = {n: sum(b.readable_end - b.begin for b in f.bounds.values()) for n, f in facts.items()}
        return Sample(tuple(b for b in batches if b.num_rows), counts, topics=facts, unreadable=unreadable)

    def _read(self, ranges: Sequence[OffsetRange], unreadable: dict[str, str]) -> pa.RecordBatch:
        """The records of ranges in the order of their places; reports topics that may not be read."""
        wanted = [one for one in ranges if one.place[0] not in unreadable]
        topics = sorted({one.place[0] for one in wanted})
        try:
            batches = list(self._reader([to_bytes(wanted)])) if wanted else []
        except NotAllowed:
            batches = []
            for topic in topics:
                try:
                    batches += self._reader([to_bytes([one for one in wanted if one.place[0] == topic])])
                except NotAllowed:
                    unreadable[topic] = "this user may not read it; grant Read on the topic"
        table = pa.Table.from_batches(batches, RECORD_SCHEMA).sort_by(_ORDER).combine_chunks()
        return (table.to_batches() or [pa.RecordBatch.from_pylist([], schema=RECORD_SCHEMA)])[0]


def _range(place: Place, begin: int, end: int) -> list[OffsetRange]:
    return ranges_of({place: begin}, {place: end})
