"""Asks Kafka about topics and offsets by librdkafka, in this process: no JVM and no jar is needed.

librdkafka tries again until time is up, whatever the reason. So each request waits in short steps. It ends at once if
an event shows a permanent reason: a refused login, a certificate that is not trusted.
"""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
    Uuid,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)

from paimon_table.errors import TidemarkError
from sources.kafka.admin import DEFAULT_PATIENCE
from sources.kafka.client_errors import Trouble, error_of, to_debug
from sources.kafka.client_properties import DEFAULTS, librdkafka_properties
from sources.kafka.failures import kafka_failure
from sources.kafka.settings import KafkaSettings
from sources.kafka.stores_look import REPLACED_FILES_UNUSABLE, distrust, file_states, unreadable_file
from sources.positions import Bounds, Place

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_STEP_S = 0.2
_EARLIEST, _LATEST = OffsetSpec.earliest(), OffsetSpec.latest()
_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_OF_CONSUMERS = DEFAULTS.keys() - {"group.id", "reconnect.backoff.max.ms", "socket.keepalive.enable"}


class DirectAdmin:
    """See ``KafkaAdmin``."""

    def __init__(self, kafka: KafkaSettings, patience: Mapping[str, str] | None = None) -> None:
        defaults = {} if DEFAULT_PATIENCE.keys() & kafka.properties.keys() else DEFAULT_PATIENCE
        asked = {**defaults, **kafka.properties, **(patience or {})}
        self._patience_s = int(asked.get("default.api.timeout.ms", "60000")) / 1000
        self._isolation = (
            IsolationLevel.READ_COMMITTED
            if kafka.isolation_level == "read_committed"
            else IsolationLevel.READ_UNCOMMITTED
        )
        self._trouble = Trouble(kafka.servers)
        properties: dict[str, Any] = {
            name: value
            for name, value in librdkafka_properties(kafka.servers, asked).items()
            if name not in _OF_CONSUMERS
        }
        self._servers, self._properties = kafka.servers, properties
        self._files = file_states(properties)
        self._admin = self._connected()

    def close(self) -> None:
        """The connections end with the client, after its last user."""

    def _connected(self) -> AdminClient:
        unreadable = unreadable_file(self._properties)
        if unreadable is not None:
            raise kafka_failure(self._servers, [unreadable])
        try:
            configuration: Any = {**self._properties, "error_cb": self._trouble.note}  # typed without callbacks
            return AdminClient(configuration, logger=to_debug())
        except KafkaException as error:
            raise self._trouble.failure(error_of(error)) from None

    def _connect_with_replaced_files(self) -> None:
        files = file_states(self._properties)
        if files == self._files:
            return
        self._files = files
        try:
            self._admin = self._connected()
        except TidemarkError as error:
            log.warning(REPLACED_FILES_UNUSABLE, self._servers, error)

    def topic_ids(self) -> dict[str, str]:
        names = [name for name, topic in self._listed().items() if topic.error is None]
        if not names:
            return {}
        described = self._all(
            lambda left_s: self._admin.describe_topics(TopicCollection(names), request_timeout=left_s),
            passed_over=frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART}),  # deleted since they were listed
        )
        return {name: id_text(one.topic_id) for name, one in described.items() if not one.is_internal}

    def places(self) -> dict[str, int]:
        """Every topic except Kafka's internal ones by name, with its number of partitions."""
        return {
            name: len(topic.partitions)
            for name, topic in self._listed().items()
            if topic.error is None and name not in _INTERNAL
        }

    def bounds(self, topics: Iterable[str]) -> dict[Place, Bounds]:
        return self.bounds_of(self._places(topics))

    def bounds_of(self, places: Sequence[Place]) -> dict[Place, Bounds]:
        """The bounds of each of these partitions."""
        begins = self.begins(places)
        readable = self.ends_of(places)
        ends = self._offsets(places, _LATEST, IsolationLevel.READ_UNCOMMITTED)
        return {place: Bounds(begins[place], readable[place], ends[place]) for place in places}

    def ends(self, topics: Iterable[str]) -> dict[Place, int]:
        return self.ends_of(self._places(topics))

    def ends_of(self, places: Sequence[Place]) -> dict[Place, int]:
        """The offset after the last record that our isolation level sees, of each of these partitions."""
        return self._offsets(places, _LATEST, self._isolation)

    def begins(self, places: Iterable[Place]) -> dict[Place, int]:
        return self._offsets([*places], _EARLIEST, IsolationLevel.READ_UNCOMMITTED)

    def offsets_at(self, topics: Iterable[str], time_ms: int) -> dict[Place, int]:
        held = self.bounds(topics)
        found = self._offsets([*held], OffsetSpec.for_timestamp(time_ms), IsolationLevel.READ_UNCOMMITTED)
        return {place: at if at >= 0 else held[place].end for place, at in found.items()}

    def compacted(self, topics: Iterable[str]) -> list[str]:
        configs = self._configs(topics)
        return [name for name, config in configs.items() if "compact" in config.get("cleanup.policy", "")]

    def configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """The settings of topics; omits those that this user may not see."""
        return self._configs(topics, passed_over=_NOT_ALLOWED)

    def _configs(self, topics: Iterable[str], passed_over: frozenset[int] = frozenset()) -> dict[str, dict[str, str]]:
        by_resource = {ConfigResource(ResourceType.TOPIC, name): name for name in sorted(topics)}
        if not by_resource:
            return {}
        found = self._all(
            lambda left_s: self._admin.describe_configs([*by_resource], request_timeout=left_s), passed_over
        )
        return {
            by_resource[resource]: {name: str(entry.value) for name, entry in entries.items()}
            for resource, entries in found.items()
        }

    def commit_group(self, group_id: str, offsets: Mapping[Place, int]) -> None:
        asked = ConsumerGroupTopicPartitions(group_id, [TopicPartition(*place, at) for place, at in offsets.items()])
        found = self._all(
            lambda left_s: self._admin.alter_consumer_group_offsets([asked], request_timeout=max(left_s, 1.0))
        )
        for group in found.values():
            for partition in group.topic_partitions:
                if partition.error is not None:
                    raise self._trouble.failure(partition.error)

    def _places(self, topics: Iterable[str]) -> list[Place]:
        names = sorted(topics)
        counts = self.places() if names else {}
        missing = [name for name in names if name not in counts]
        if missing:
            raise self._trouble.failure(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, f"there is no {missing[0]}"))
        return [(name, partition) for name in names for partition in range(counts[name])]

    def _offsets(self, places: Sequence[Place], spec: OffsetSpec, isolation: IsolationLevel) -> dict[Place, int]:
        if not places:
            return {}
        asked = {TopicPartition(*place): spec for place in places}
        found = self._all(
            lambda left_s: self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=left_s)
        )
        return {(at.topic, at.partition): info.offset for at, info in found.items()}

    def _listed(self) -> Mapping[str, Any]:
        """The topics in the metadata of the cluster."""

        def ask(left_s: float) -> Mapping[str, Any]:
            listed: Mapping[str, Any] = self._admin.list_topics(timeout=min(left_s, 1.0)).topics
            return listed

        return self._patiently(ask)

    def _all(
        self, ask: Callable[[float], Mapping[Any, Future[Any]]], passed_over: frozenset[int] = frozenset()
    ) -> dict[Any, Any]:
        """All answers to one question; omits those with errors to be ``passed_over``."""

        def answers(left_s: float) -> dict[Any, Any]:
            ends_s = time.monotonic() + left_s + _STEP_S
            found = {}
            for key, future in ask(left_s).items():
                try:
                    found[key] = self._answer(future, ends_s)
                except KafkaException as error:
                    if error_of(error).code() not in passed_over:
                        raise
            return found

        return self._patiently(answers)

    def _answer(self, future: Future[Result], ends_s: float) -> Result:
        while True:
            try:
                return future.result(_STEP_S)
            except FutureTimeoutError:
                self._admin.poll(0)
                if self._trouble.is_lasting or time.monotonic() > ends_s:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer in time")) from None

    def _told(self, error: KafkaError) -> TidemarkError:
        """The failure; librdkafka uses the same words for every problem with a certificate."""
        distrusted = distrust(self._servers, self._properties) if self._trouble.is_of_tls else None
        return self._trouble.failure(error) if distrusted is None else kafka_failure(self._servers, [distrusted])

    def _patiently(self, question: Callable[[float], Result]) -> Result:
        """The answer; asks again until the time is up if brokers were away or the leader changed."""
        ends_s = time.monotonic() + self._patience_s
        self._trouble.clear()
        while True:
            self._connect_with_replaced_files()
            left_s = max(ends_s - time.monotonic(), 0.1)
            try:
                return question(left_s)
            except KafkaException as error:
                self._admin.poll(0)
                found = error_of(error)
                is_passing = found.retriable() or found.code() in _PASSING
                if not is_passing or self._trouble.is_lasting or time.monotonic() + _STEP_S >= ends_s:
                    raise self._told(found) from None
            time.sleep(_STEP_S)


_NOT_ALLOWED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_PASSING = frozenset(  # although librdkafka does not call it retriable
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
    }
)


def id_text(topic_id: Uuid) -> str:
    """The id of a topic in Java's form, which checkpoints and tables store."""
    halves = (topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits())
    data = b"".join((half & (1 << 64) - 1).to_bytes(8, "big") for half in halves)
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class KafkaOffsets:
    """The ``Offsets`` of a source, over one connection that stays until ``close``."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._admin: DirectAdmin | None = None

    def places(self) -> frozenset[Place]:
        topics = self._asked().places()
        return frozenset(
            (name, partition)
            for name, count in topics.items()
            if self._kafka.topics.selects(name)
            for partition in range(count)
        )

    def ends_of(self, places: Sequence[Place]) -> Mapping[Place, int]:
        return self._asked().ends_of(places)

    def begins(self, places: Sequence[Place]) -> Mapping[Place, int]:
        return self._asked().begins(places)

    def bounds_of(self, places: Sequence[Place]) -> Mapping[Place, Bounds]:
        return self._asked().bounds_of(places)

    def close(self) -> None:
        self._admin = None

    def _asked(self) -> DirectAdmin:
        if self._admin is None:
            self._admin = DirectAdmin(self._kafka, _PLANNING)
        return self._admin


_PLANNING = {"default.api.timeout.ms": "2000", "request.timeout.ms": "2000"}
"""The time limit of a request while Kafka does not answer; short, because a query that must stop waits for it."""
