"""Fills a topic with the records of a benchmark."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Producer

from tests.stack.kafka import KafkaBroker

_AHEAD = {"queue.buffering.max.messages": 100_000, "queue.buffering.max.kbytes": 1 << 18}


def fill(broker: KafkaBroker, topic: str, partitions: int, records: Iterable[tuple[bytes, bytes]]) -> int:
    """Make the topic and produce the (key, value) records; returns the bytes of their values."""
    broker.topics.create(topic, partitions)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50, "batch.size": 1 << 20, **_AHEAD}
    )
    total = 0
    for key, value in records:
        total += len(value)
        while len(producer) >= _AHEAD["queue.buffering.max.messages"]:
            producer.poll(0.1)
        producer.produce(topic, value, key)
    producer.flush()
    return total
