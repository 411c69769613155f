"""Topics of a running broker, through kafka-python: make, fill and read them."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from tests.support.waiting import seconds

REQUEST_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """One record; `timestamp_ms` and `offset` are the broker's when it was read, ignored when it is produced."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int | None = None
    offset: int = -1
    timestamp_ms: int = -1


@dataclass(frozen=True, slots=True)
class Topics:
    """What tests do with topics; every call opens its own connections, so a broker may restart in between."""

    bootstrap_servers: str

    def create(self, topic: str, partitions: int = 1, settings: dict[str, str] | None = None) -> None:
        """Make a topic with these settings of its own; return once clients see it. Raises when it is there already."""
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        try:
            admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=settings or {})])
            deadline = time.monotonic() + seconds(REQUEST_TIMEOUT_S)
            while topic not in admin.list_topics():
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{topic} is not there")
                time.sleep(0.05)
        finally:
            admin.close()

    def delete(self, topic: str, timeout_s: float = 60) -> None:
        """Delete a topic and wait until nobody sees it."""
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        try:
            admin.delete_topics([topic])
        finally:
            admin.close()
        deadline = time.monotonic() + seconds(timeout_s)
        while topic in self.names():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} is still there")
            time.sleep(0.2)

    def delete_records(self, topic: str, before: int, partition: int = 0) -> None:
        """Delete the records of a partition below an offset, as retention does."""
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        try:
            admin.delete_records({TopicPartition(topic, partition): before})
        finally:
            admin.close()

    def names(self) -> set[str]:
        """Return the names of all topics that are not the broker's own."""
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap_servers)
        try:
            return {name for name in consumer.topics() if not name.startswith("__consumer_")}
        finally:
            consumer.close()

    def produce(self, topic: str, records: Iterable[TopicRecord]) -> None:
        """Append records in order and return once the broker has acknowledged all of them."""
        producer = KafkaProducer(bootstrap_servers=self.bootstrap_servers, linger_ms=20, acks="all")
        try:
            sent = [
                producer.send(
                    topic, value=record.value, key=record.key, headers=list(record.headers), partition=record.partition
                )
                for record in records
            ]
            for future in sent:
                future.get(timeout=seconds(REQUEST_TIMEOUT_S))
        finally:
            producer.close()

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Return, for every partition, the offset that the next record will get."""
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap_servers)
        try:
            return self._end_offsets(consumer, self._partitions(consumer, topic))
        finally:
            consumer.close()

    def read_all(self, topic: str, timeout_s: float = REQUEST_TIMEOUT_S) -> list[TopicRecord]:
        """Return what the topic holds at the time of the call, partition after partition in offset order."""
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap_servers, enable_auto_commit=False)
        try:
            partitions = self._partitions(consumer, topic)
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            ends = consumer.end_offsets(partitions)
            read: list[TopicRecord] = []
            timeout_s = seconds(timeout_s)
            deadline = time.monotonic() + timeout_s
            while any(consumer.position(partition) < ends[partition] for partition in partitions):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{topic}: {len(read)} records read in {timeout_s} s, wanted all before {ends}")
                for records in consumer.poll(timeout_ms=200).values():
                    read.extend(_from_kafka(record) for record in records)
        finally:
            consumer.close()
        return sorted(read, key=lambda record: (record.partition or 0, record.offset))

    def wait_for_records(self, topic: str, count: int, timeout_s: float = 120) -> list[TopicRecord]:
        """Return what the topic holds once it exists and at least `count` records were written to it."""
        timeout_s = seconds(timeout_s)
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if topic in self.names() and sum(self.end_offsets(topic).values()) >= count:
                return self.read_all(topic)
            time.sleep(0.2)
        raise TimeoutError(f"{topic} did not get {count} records in {timeout_s} s")

    def _partitions(self, consumer: KafkaConsumer, topic: str) -> list[TopicPartition]:
        numbers = consumer.partitions_for_topic(topic)
        if not numbers:
            raise LookupError(f"the broker has no topic {topic}")
        return [TopicPartition(topic, number) for number in sorted(numbers)]

    def _end_offsets(self, consumer: KafkaConsumer, partitions: Sequence[TopicPartition]) -> dict[int, int]:
        return {partition.partition: end for partition, end in consumer.end_offsets(partitions).items()}


def _from_kafka(record: object) -> TopicRecord:
    return TopicRecord(
        key=record.key,  # type: ignore[attr-defined]
        value=record.value,  # type: ignore[attr-defined]
        headers=tuple(record.headers),  # type: ignore[attr-defined]
        partition=record.partition,  # type: ignore[attr-defined]
        offset=record.offset,  # type: ignore[attr-defined]
        timestamp_ms=record.timestamp,  # type: ignore[attr-defined]
    )
