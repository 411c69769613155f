"""Asks Kafka about topics and offsets with Java's admin client in the JVM of the Spark driver.

Spark's reader uses the same client library, so every property of the reader works: truststores of each kind, OAuth,
Kerberos, plug-ins. ``default.api.timeout.ms`` limits all waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError

from paimon_table.errors import ConfigError
from sources.kafka.admin import DEFAULT_PATIENCE
from sources.kafka.failures import Cause, kafka_failure
from sources.kafka.settings import KafkaSettings
from sources.positions import Bounds, Place

Result = TypeVar("Result")


class JavaAdmin:
    """See ``KafkaAdmin``."""

    def __init__(self, jvm: Any, kafka: KafkaSettings, patience: Mapping[str, str] | None = None) -> None:
        """``patience`` are timeouts that override the timeouts of the source."""
        self._jvm = jvm
        self._servers = kafka.servers
        self._isolation = kafka.isolation_level
        defaults = {} if DEFAULT_PATIENCE.keys() & kafka.properties.keys() else DEFAULT_PATIENCE
        properties = {**defaults, **kafka.properties, **(patience or {}), "bootstrap.servers": self._servers}
        try:
            self._admin = self._asked(lambda: jvm.org.apache.kafka.clients.admin.Admin.create(properties))
        except TypeError as error:  # py4j takes the name of a missing class for a package
            raise ConfigError(
                "Spark has no Kafka connector: leave spark.jars.packages to Tidemark, or give the connector and"
                " kafka-clients to spark-submit by --packages or --jars"
            ) from error

    def close(self) -> None:
        self._admin.close(self._jvm.java.time.Duration.ZERO)

    def topic_ids(self) -> dict[str, str]:
        listings = self._jvm.java.util.ArrayList(self._asked(lambda: self._admin.listTopics().listings().get()))
        # By index: py4j's iterator ends with an exception, which PySpark compares with a dozen classes by name.
        found = [listings.get(index) for index in range(listings.size())]
        return {listing.name(): listing.topicId().toString() for listing in found}

    def bounds(self, topics: Iterable[str]) -> dict[Place, Bounds]:
        places = self._places(sorted(topics))
        if not places:
            return {}
        spec, levels = (
            self._jvm.org.apache.kafka.clients.admin.OffsetSpec,
            self._jvm.org.apache.kafka.common.IsolationLevel,
        )
        begins = self._offsets(places, spec.earliest(), levels.READ_UNCOMMITTED)
        readable = self._offsets(places, spec.latest(), levels.valueOf(self._isolation.upper()))
        ends = self._offsets(places, spec.latest(), levels.READ_UNCOMMITTED)
        return {place: Bounds(begins[place], readable[place], ends[place]) for place in places}

    def ends(self, topics: Iterable[str]) -> dict[Place, int]:
        places = self._places(sorted(topics))
        level = self._jvm.org.apache.kafka.common.IsolationLevel.valueOf(self._isolation.upper())
        spec = self._jvm.org.apache.kafka.clients.admin.OffsetSpec.latest()
        return self._offsets(places, spec, level) if places else {}

    def compacted(self, topics: Iterable[str]) -> list[str]:
        resources = self._jvm.org.apache.kafka.common.config.ConfigResource
        kind = resources.Type.valueOf("TOPIC")
        asked = self._jvm.java.util.ArrayList()
        by_name = {name: resources(kind, name) for name in sorted(topics)}
        for resource in by_name.values():
            asked.add(resource)
        if not by_name:
            return []
        found: Any = self._asked(lambda: self._admin.describeConfigs(asked).all().get())
        policies = {name: found.get(resource).get("cleanup.policy") for name, resource in by_name.items()}
        return [name for name, policy in policies.items() if policy is not None and "compact" in str(policy.value())]

    def commit_group(self, group_id: str, offsets: Mapping[Place, int]) -> None:
        asked = self._jvm.java.util.HashMap()
        for (topic, partition), offset in offsets.items():
            metadata = self._jvm.org.apache.kafka.clients.consumer.OffsetAndMetadata(offset)
            asked.put(self._place(topic, partition), metadata)
        self._asked(lambda: self._admin.alterConsumerGroupOffsets(group_id, asked).all().get())

    def _places(self, names: Sequence[str]) -> dict[Place, Any]:
        """The partitions of these topics."""
        if not names:
            return {}
        described = self._asked(lambda: self._admin.describeTopics(names).allTopicNames().get())
        counts = {name: described.get(name).partitions().size() for name in names}
        return {(name, p): self._place(name, p) for name, count in counts.items() for p in range(count)}

    def begins(self, places: Iterable[Place]) -> dict[Place, int]:
        spec = self._jvm.org.apache.kafka.clients.admin.OffsetSpec.earliest()
        level = self._jvm.org.apache.kafka.common.IsolationLevel.READ_UNCOMMITTED
        return self._offsets({place: self._place(*place) for place in places}, spec, level)

    def offsets_at(self, topics: Iterable[str], time_ms: int) -> dict[Place, int]:
        held = self.bounds(topics)
        places = {place: self._place(*place) for place in held}
        spec, level = (
            self._jvm.org.apache.kafka.clients.admin.OffsetSpec,
            self._jvm.org.apache.kafka.common.IsolationLevel,
        )
        found = self._offsets(places, spec.forTimestamp(time_ms), level.READ_UNCOMMITTED) if places else {}
        return {place: at if at >= 0 else held[place].end for place, at in found.items()}

    def _place(self, topic: str, partition: int) -> Any:
        return self._jvm.org.apache.kafka.common.TopicPartition(topic, partition)

    def _offsets(self, places: Mapping[Place, Any], spec: Any, isolation: Any) -> dict[Place, int]:
        options = self._jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(isolation)
        asked = self._jvm.java.util.HashMap()
        for place in places.values():
            asked.put(place, spec)
        found = self._asked(lambda: self._admin.listOffsets(asked, options).all().get())
        return {place: found.get(java).offset() for place, java in places.items()}

    def _asked(self, question: Callable[[], Result]) -> Result:
        try:
            return question()
        except Py4JJavaError as error:
            raise kafka_failure(self._servers, list(_causes(error.java_exception))) from error


def _causes(exception: Any) -> Iterator[Cause]:
    while exception is not None:
        name = exception.getClass().getSimpleName()
        if name != "ExecutionException":
            yield name, exception.getMessage() or ""
        exception = exception.getCause()
