"""A look at the topics of a Kafka cluster and at some of their records, without a JVM, a group or anything written.

librdkafka reads what Java's client would read: the same isolation level, partitions assigned by hand. No offset is
committed and no consumer group is joined.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pyarrow as pa
from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from paimon_table.errors import ConfigError
from sources.changes import RECORD_SCHEMA
from sources.kafka.client_properties import Unmappable, librdkafka_properties
from sources.kafka.failures import Cause, kafka_failure
from sources.kafka.settings import LATEST, KafkaSettings
from sources.positions import Bounds, Place, Positions
from sources.samples import Sample, TopicFacts

WAIT_S = 10.0
"""How long an answer may take, and a read without any record."""

_JAVA_NAMES = {
    KafkaError._AUTHENTICATION: "SaslAuthenticationException",
    KafkaError._SSL: "SslAuthenticationException",
    KafkaError._TRANSPORT: "ConnectException",
    KafkaError._ALL_BROKERS_DOWN: "ConnectException",
    KafkaError._TIMED_OUT: "TimeoutException",
    KafkaError._RESOLVE: "UnknownHostException",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationException",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
}
"""What Java's client calls a failure, by which ``kafka_failure`` knows it."""


class KafkaSampler:
    """Looks at one cluster; every method raises what ``kafka_failure`` makes of a failure."""

    def __init__(self, kafka: KafkaSettings) -> None:
        """ConfigError where librdkafka cannot connect as the properties of the source say."""
        self._kafka = kafka
        self._causes: list[Cause] = []
        try:
            properties = librdkafka_properties(kafka.servers, kafka.properties)
        except Unmappable as found:
            raise ConfigError(
                f"source.kafka.options: {found}. `tidemark run` reads with Java's client; `plan` and `init` do not"
            ) from None
        self._properties = {
            **properties,
            "socket.connection.setup.timeout.ms": int(WAIT_S * 500),
            "log_level": 0,
            "error_cb": lambda error: self._causes.append(_cause(error)),
        }
        try:
            self._admin = AdminClient(self._properties)
        except KafkaException as error:
            raise kafka_failure(kafka.servers, [("ConfigException", str(error.args[0].str()))]) from error

    def topics(self) -> dict[str, int]:
        """The partition counts of every topic that this user may see, but for Kafka's own."""
        with self._told():
            found = self._admin.list_topics(timeout=WAIT_S).topics
        return {n: len(t.partitions) for n, t in found.items() if t.error is None and not n.startswith("__")}

    def facts(self, topics: Mapping[str, int]) -> dict[str, TopicFacts]:
        """What Kafka holds of these topics, with their partition counts, and for how long."""
        places = [(name, p) for name, count in topics.items() for p in range(count)]
        begins = self._offsets(places, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)
        is_committed = self._kafka.isolation_level == "read_committed"
        level = IsolationLevel.READ_COMMITTED if is_committed else IsolationLevel.READ_UNCOMMITTED
        readable = self._offsets(places, OffsetSpec.latest(), level)
        ends = self._offsets(places, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
        configs = self._configs(topics)
        found = {}
        for name in topics:
            bounds = {at: Bounds(begins[at], readable[at], ends[at]) for at in places if at[0] == name and at in ends}
            config = configs.get(name, {})
            retention_ms = int(config.get("retention.ms", -1))
            is_compacted = "compact" in config["cleanup.policy"] if "cleanup.policy" in config else None
            found[name] = TopicFacts(bounds, is_compacted, retention_ms if retention_ms >= 0 else None)
        return found

    def begins(self, facts: Mapping[str, TopicFacts]) -> Positions:
        """Where a run with a new checkpoint begins, as the source says; partitions without a word at their begin."""
        held = {place: bounds for of_topic in facts.values() for place, bounds in of_topic.bounds.items()}
        match self._kafka.start:
            case "latest":
                return {place: bounds.readable_end for place, bounds in held.items()}
            case datetime() as moment:
                spec = OffsetSpec.for_timestamp(int(moment.timestamp() * 1000))
                found = self._offsets([*held], spec, IsolationLevel.READ_UNCOMMITTED)
                return {place: at if at >= 0 else held[place].end for place, at in found.items()}
            case str():
                return {}
            case chosen:
                ends = {place: held[place].readable_end for place in chosen if place in held}
                return {p: end if chosen[p] == LATEST else max(chosen[p], 0) for p, end in ends.items()}

    def sample(self, facts: Mapping[str, TopicFacts], most: int, begins: Positions | None = None) -> Sample:
        """At most ``most`` records of each topic: those with which reading begins, and the newest ones.

        ``begins`` says where it begins in partitions that were read before; where nothing came since, only the newest
        are looked at.
        """
        first, last = dict[Place, tuple[int, int]](), dict[Place, tuple[int, int]]()
        for of_topic in facts.values():
            share = max(1, most // (2 * max(1, len(of_topic.bounds))))
            for place, held in of_topic.bounds.items():
                at = min(max((begins or {}).get(place, held.begin), held.begin), held.readable_end)
                first[place] = at, min(at + share, held.readable_end)
                newest = max(held.readable_end - share, held.begin)
                last[place] = max(newest, first[place][1]) if at < held.readable_end else newest, held.readable_end
        unreadable: dict[str, str] = {}
        batches = [_batch(self._read(windows, unreadable)) for windows in (first, last)]
        counts = {n: sum(b.readable_end - b.begin for b in f.bounds.values()) for n, f in facts.items()}
        return Sample(tuple(b for b in batches if b.num_rows), counts, topics=facts, unreadable=unreadable)

    def _read(self, windows: Mapping[Place, tuple[int, int]], unreadable: dict[str, str]) -> Iterator[Message]:
        """The records of partitions between two offsets each; topics that may not be read are told."""
        left = {place: end for place, (begin, end) in windows.items() if begin < end and place[0] not in unreadable}
        if not left:
            return
        with self._told():
            consumer = Consumer({
                "isolation.level": self._kafka.isolation_level,
                **self._properties,
                "group.id": "tidemark-sample",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
            })  # fmt: skip
            try:
                consumer.assign([TopicPartition(topic, p, windows[topic, p][0]) for topic, p in left])
                yield from self._polled(consumer, left, unreadable)
            finally:
                consumer.close()

    def _polled(self, consumer: Consumer, left: dict[Place, int], unreadable: dict[str, str]) -> Iterator[Message]:
        heard_s = time.monotonic()
        while left:
            message = consumer.poll(0.5)
            if message is None:
                if time.monotonic() - heard_s > WAIT_S:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
                continue
            heard_s = time.monotonic()
            place = str(message.topic()), int(message.partition() or 0)
            error, offset = message.error(), message.offset()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                left.pop(place, None)
            elif error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                unreadable[place[0]] = "this user may not read it; grant Read on the topic"
                for other in [other for other in left if other[0] == place[0]]:
                    del left[other]
            elif error is not None:
                raise KafkaException(error)
            elif place in left and offset is not None:
                if offset < left[place]:
                    yield message
                if offset >= left[place] - 1:
                    del left[place]
                    consumer.pause([TopicPartition(*place)])

    def _offsets(self, places: Collection[Place], spec: OffsetSpec, level: IsolationLevel) -> Positions:
        if not places:
            return {}
        with self._told():
            asked = {TopicPartition(*place): spec for place in places}
            found = self._admin.list_offsets(asked, isolation_level=level, request_timeout=WAIT_S)
            return {(at.topic, at.partition): answer.result().offset for at, answer in found.items()}

    def _configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """The settings of topics; those that this user may not see are left out."""
        asked = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
        if not asked:
            return {}
        found = {}
        for resource, answer in self._admin.describe_configs(asked, request_timeout=WAIT_S).items():
            try:
                found[resource.name] = {name: str(entry.value) for name, entry in answer.result().items()}
            except KafkaException:
                continue
        return found

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            self._admin.poll(0.1)  # hears why connections failed
            of_connection = [cause for cause in self._causes if cause[0] in _TELLING]
            raise kafka_failure(self._kafka.servers, [*of_connection, _cause(error.args[0])][:1]) from error


_TELLING = ("SaslAuthenticationException", "SslAuthenticationException", "ConfigException")
"""What connections fail with for good, whatever the request then fails with."""


def _cause(error: Any) -> Cause:
    """A failure as Java's client would name it."""
    name = _JAVA_NAMES.get(error.code(), str(error.name()))
    text = str(error.str())
    return ("ConfigException", "No resolvable bootstrap urls") if name == "UnknownHostException" else (name, text)


def _batch(messages: Iterable[Message]) -> pa.RecordBatch:
    """Records in the order of their partitions and offsets."""
    by_place: dict[Place, list[dict[str, Any]]] = defaultdict(list)
    for message in messages:
        row = _row(message)
        by_place[row["topic"], row["partition"]].append(row)
    rows = [row for _, of_place in sorted(by_place.items()) for row in of_place]
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def _row(message: Message) -> dict[str, Any]:
    kind, time_ms = message.timestamp()
    headers = message.headers()
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": None if kind == TIMESTAMP_NOT_AVAILABLE else time_ms * 1000,
        "key": message.key(),
        "value": message.value(),
        "headers": [{"key": k, "value": _bytes(v)} for k, v in headers] if headers else None,
    }


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
