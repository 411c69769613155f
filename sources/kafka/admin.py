"""The requests to Kafka about topics and offsets, for both clients.

If the tasks read with librdkafka, the driver asks with it too, in its own process, and needs no Kafka jar. If Spark's
reader reads, Java's admin client asks in the driver's JVM: it accepts every property of the reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from sources.positions import Bounds, Place

if TYPE_CHECKING:
    from sources.kafka.settings import KafkaSettings

DEFAULT_PATIENCE = {"default.api.timeout.ms": "30000", "request.timeout.ms": "15000"}
"""The most seconds for a request, unless the file sets a limit: a user waits at the terminal."""


class KafkaAdmin(Protocol):
    """A connection to the brokers of a source. Every method raises what ``kafka_failure`` makes of a failure."""

    def close(self) -> None: ...

    def topic_ids(self) -> dict[str, str]:
        """Every topic that this user may see, except Kafka's internal ones, with its id."""
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
        """The compacted ones of these topics: Kafka removes a record once a later one of its key replaces it."""
        ...

    def commit_group(self, group_id: str, offsets: Mapping[Place, int]) -> None:
        """Commit these offsets for the consumer group. Fails if the group has members."""
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
    """A connection for the duration of the block."""
    admin = connected(jvm, kafka, patience)
    try:
        yield admin
    finally:
        admin.close()
