"""The local stack works: records pass through Kafka, a row change passes from PostgreSQL through Debezium."""

import json
from pathlib import Path

import pytest

from tests.stack.connect import Connect
from tests.stack.kafka import KafkaBroker
from tests.stack.postgres import Postgres
from tests.stack.topics import TopicRecord, Topics

pytestmark = [pytest.mark.stack, pytest.mark.slow]


def test_produced_records_are_read_back_in_order(kafka: Topics) -> None:
    kafka.create("stack.numbers", partitions=2)
    sent = [TopicRecord(b"k%d" % n, b"v%d" % n, (("h", b"%d" % n),), partition=n % 2) for n in range(100)]

    kafka.produce("stack.numbers", sent)

    read = kafka.read_all("stack.numbers")
    assert kafka.end_offsets("stack.numbers") == {0: 50, 1: 50}
    assert [(r.key, r.value, r.headers) for r in read if r.partition == 0] == [
        (r.key, r.value, r.headers) for r in sent if r.partition == 0
    ]
    assert [r.offset for r in read if r.partition == 1] == list(range(50))


def test_a_row_change_arrives_in_its_topic(kafka: Topics, postgres: Postgres, connect: Connect) -> None:
    postgres.create_database("stack")
    with postgres.connect("stack") as connection:
        connection.execute("CREATE TABLE item (id int PRIMARY KEY, name text)")
        connection.execute("INSERT INTO item VALUES (1, 'before')")
        connect.capture("stack_cdc", postgres, "stack")
        connection.execute("UPDATE item SET name = 'after' WHERE id = 1")
        connection.execute("DELETE FROM item WHERE id = 1")

    values = [record.value for record in kafka.wait_for_records("stack_cdc.public.item", 4)]
    connect.release("stack_cdc")

    envelopes = [json.loads(value) for value in values if value is not None]
    assert values[3] is None, "a delete is followed by a tombstone"
    assert [envelope["op"] for envelope in envelopes] == ["r", "u", "d"]
    assert envelopes[1]["after"] == {"id": 1, "name": "after"}


def test_a_broker_keeps_its_records_over_a_kill(tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path)
    broker.start()
    broker.topics.create("kept")
    broker.topics.produce("kept", [TopicRecord(b"k", b"v")])

    broker.kill()
    broker.start()

    try:
        assert [record.value for record in broker.topics.read_all("kept")] == [b"v"]
    finally:
        broker.stop()
