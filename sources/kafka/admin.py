"""The requests to Kafka about topics and offsets, for either client.

Where the tasks read with librdkafka, it asks in this process too, and no jar of Kafka is needed. Where Spark's reader
reads, Java's admin client asks in the JVM of the driver: it takes every property that the reader takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from sources.positions import Bounds, Place

if TYPE_CHECKING:
    from sources.kafka.settings import KafkaSettings

DEFAULT_PATIENCE = {"default.api.timeout.ms": "30000", "request.timeout.ms": "15000"}
"""How long a request may wait, unless the file says otherwise: a user is waiting at the terminal."""


class KafkaAdmin(Protocol):
    """A connection to the brokers of a source. Every method raises what ``kafka_failure`` makes of a failure."""

    def close(self) -> None: ...

    def topic_ids(self) -> dict[str, str]:
        """Every topic that this user may see but Kafka's internal ones, with the id that it got when it was made."""
        ...

    def bounds(self, topics: Iterable[str]) -> dict[Place, Bounds]:
        """The bounds of each partition of these topics."""
        ...

    def ends(self, topics: Iterable[str]) -> dict[Place, int]:
        """The offset after the last record that our isolation level sees, of each partition of these topics."""
        ...

    def begins(self, places: Iterable[Place]) -> dict[Place, int]:
        """The first offset that each of these partitions holds."""
        ...

    def offsets_at(self, topics: Iterable[str], time_ms: int) -> dict[Place, int]:
        """Per partition of these topics the first record that is not older than a time; its end where all are."""
        ...

    def compacted(self, topics: Iterable[str]) -> list[str]:
        """Those of these topics of which Kafka removes records that a later one of the same key has replaced."""
        ...

    def commit_group(self, group_id: str, offsets: Mapping[Place, int]) -> None:
        """Commit these offsets for the consumer group; refused if the group has members of its own."""
        ...


def connected(jvm: Any, kafka: KafkaSettings, patience: Mapping[str, str] | None = None) -> KafkaAdmin:
    """A connection; ``patience`` are timeouts that override the source's. ``jvm`` is the JVM of Spark's driver."""
    if kafka.is_direct:
        from sources.kafka.direct_admin import DirectAdmin

        return DirectAdmin(kafka, patience)
    from sources.kafka.java_admin import JavaAdmin

    return JavaAdmin(jvm, kafka, patience)


@contextmanager
def kafka_admin(jvm: Any, kafka: KafkaSettings, patience: Mapping[str, str] | None = None) -> Iterator[KafkaAdmin]:
    """A connection for the length of the block."""
    admin = connected(jvm, kafka, patience)
    try:
        yield admin
    finally:
        admin.close()
