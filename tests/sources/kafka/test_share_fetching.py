"""Fetching of offset ranges from a real broker, in this process: topics of all kinds, cut at each offset."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from paimon_table.errors import Outage
from sources.changes import RECORD_SCHEMA
from sources.kafka import share_fetching, small_batches
from sources.kafka.client_properties import librdkafka_properties
from sources.kafka.direct_admin import DirectAdmin
from sources.kafka.offset_ranges import OffsetRange, to_bytes
from sources.kafka.settings import KafkaSettings
from sources.kafka.share_fetching import KafkaShareReader, OffsetsNotThere
from sources.kafka.small_batches import SmallBatches
from sources.positions import Place
from sources.topics import TopicSelection
from tests.stack.kafka import KafkaBroker
from tests.stack.process import free_port
from tests.stack.topics import TopicRecord, Topics
from tests.support.pipeline_run import wait_until
from tests.support.waiting import seconds

pytestmark = pytest.mark.stack
KINDS = ("none", "gzip", "snappy", "lz4", "zstd")
OUTCOMES = {"mixed": "accaa", "ends_open": "cco", "begins_aborted": "aac"}
MANY = 200


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    settings = {"message.max.bytes": str(16 << 20), "log.cleaner.backoff.ms": "100"}
    broker = KafkaBroker(tmp_path_factory.mktemp("fetching"), settings=settings)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def kafka(broker: KafkaBroker) -> Topics:
    return broker.topics


def settings_of(kafka: Topics, options: Mapping[str, str] | None = None) -> KafkaSettings:
    return KafkaSettings(kafka.bootstrap_servers, TopicSelection(), options or {}, is_direct=True)


def reader_of(kafka: Topics, goes_on: bool = False, patience_s: float = 30, **options: str) -> KafkaShareReader:
    properties = librdkafka_properties(kafka.bootstrap_servers, {k.replace("_", "."): v for k, v in options.items()})
    return KafkaShareReader(kafka.bootstrap_servers, properties, goes_on, patience_s)


def read(reader: KafkaShareReader, *ranges: OffsetRange) -> list[tuple[Place, int]]:
    """Place and offset of the records of one share, in the order in which they come."""
    rows: list[tuple[Place, int]] = []
    for batch in reader([to_bytes(ranges)]):
        assert batch.schema == RECORD_SCHEMA
        columns = [batch.column(name).to_pylist() for name in ("topic", "partition", "offset")]
        rows += [((topic, partition), offset) for topic, partition, offset in zip(*columns, strict=True)]
    return rows


def offsets(reader: KafkaShareReader, topic: str, begin: int, end: int) -> list[int]:
    return [offset for _, offset in read(reader, OffsetRange((topic, 0), begin, end))]


def numbered(count: int) -> list[TopicRecord]:
    return [TopicRecord(str(n).encode(), str(n).encode(), partition=0) for n in range(count)]


def test_a_record_is_whole_whatever_compresses_it(kafka: Topics) -> None:
    for kind in KINDS:
        kafka.create(topic := f"f.{kind}", settings={"retention.ms": "-1"})
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "compression.type": kind})
        for n in range(300):
            headers: Any = [("n", str(n).encode()), ("empty", None)] if n % 3 == 0 else None
            key, value = (None if n % 5 == 0 else b"k" * n), (None if n % 7 == 0 else b"v" * n)
            producer.produce(topic, value, key, 0, timestamp=1_000 + n, headers=headers)
        assert producer.flush(seconds(60)) == 0
        rows = pa.Table.from_batches(reader_of(kafka)([to_bytes([OffsetRange((topic, 0), 1, 300)])])).to_pylist()
        for n, row in enumerate(rows, 1):
            assert (row["topic"], row["partition"], row["offset"]) == (topic, 0, n)
            assert row["timestamp"].timestamp() == (1_000 + n) / 1000
            assert row["key"] == (None if n % 5 == 0 else b"k" * n)
            assert row["value"] == (None if n % 7 == 0 else b"v" * n)
            told = [{"key": "n", "value": str(n).encode()}, {"key": "empty", "value": None}]
            assert row["headers"] == (told if n % 3 == 0 else None)
        assert len(rows) == 299


def test_ranges_end_where_aborted_records_markers_and_open_transactions_lie(kafka: Topics) -> None:
    """Every range of every topic has the committed records, and is known to be at its end."""
    open_producers = []
    for name, outcomes in OUTCOMES.items():
        kafka.create(topic := f"f.{name}")
        committed, end = [], 0
        for number, outcome in enumerate(outcomes):
            producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"{name}-{number}"})
            producer.init_transactions(seconds(30))
            producer.begin_transaction()
            for n in range(2):
                producer.produce(topic, str(n), partition=0)
            assert producer.flush(seconds(60)) == 0
            if outcome == "c":
                producer.commit_transaction(seconds(30))
                committed += [end, end + 1]
            elif outcome == "a":
                producer.abort_transaction(seconds(30))
            else:
                open_producers.append(producer)
                break
            end += 3  # two records and the marker
        reader = reader_of(kafka)
        assert DirectAdmin(settings_of(kafka)).ends([topic]) == {(topic, 0): end}
        for begin, until in itertools.combinations(range(end + 1), 2):
            assert offsets(reader, topic, begin, until) == [at for at in committed if begin <= at < until]
        everything = reader_of(kafka, isolation_level="read_uncommitted")
        assert len(offsets(everything, topic, 0, end)) == end // 3 * 2


def test_ranges_end_where_compaction_has_removed_records(kafka: Topics) -> None:
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}
    kafka.create("f.compacted", settings=settings)
    keys = [0, 0, 1, 2, 2, 2, 3, 4, 4, 4, 4]
    kafka.produce("f.compacted", [TopicRecord(str(key).encode(), b"v", partition=0) for key in keys])
    time.sleep(0.2)  # the next record begins another segment, and the one before may be cleaned
    kafka.produce("f.compacted", [TopicRecord(b"5", b"v", partition=0)])
    wait_until(lambda: len(kafka.read_all("f.compacted")) == 6, 60, "compaction")
    left = [1, 2, 5, 6, 10, 11]
    reader = reader_of(kafka)
    for begin, end in itertools.combinations(range(13), 2):
        assert offsets(reader, "f.compacted", begin, end) == [at for at in left if begin <= at < end]


def test_many_partitions_are_read_in_one_task_each_in_its_order(kafka: Topics) -> None:
    kafka.create("f.many", partitions=MANY)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for n in range(3 * MANY):
        producer.produce("f.many", str(n), partition=n % MANY)
    assert producer.flush(seconds(60)) == 0
    ranges = [OffsetRange(("f.many", partition), partition % 2, 3) for partition in range(MANY)]
    rows = read(reader_of(kafka), *ranges)
    assert sorted(rows) == [(one.place, at) for one in ranges for at in range(one.begin, one.end)]
    assert all([at for place, at in rows if place == one.place] == [*range(one.begin, 3)] for one in ranges)


def test_records_wait_for_others_of_their_partition(kafka: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition comes alone once it has enough records; what is left of all of them comes together."""
    monkeypatch.setattr(share_fetching, "_AT_ONCE", 100)
    monkeypatch.setattr(share_fetching, "_ROWS", 100)
    monkeypatch.setattr(share_fetching, "_MOST_ROWS", 250)
    kafka.create("f.waiting", partitions=5)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for n in range(5 * 330):
        producer.produce("f.waiting", str(n), partition=n % 5)
    assert producer.flush(seconds(60)) == 0

    share = to_bytes([OffsetRange(("f.waiting", partition), 0, 330) for partition in range(5)])
    batches = [batch.select(["partition", "offset"]).to_pydict() for batch in reader_of(kafka)([share])]

    for batch in batches[:-1]:
        counts = [batch["partition"].count(partition) for partition in {*batch["partition"]}]
        assert sum(counts) >= 250 or (len(counts) == 1 and counts[0] >= 100)
        assert sum(counts) < 250 + 100
    rows = [row for batch in batches for row in zip(batch["partition"], batch["offset"], strict=True)]
    assert all([at for place, at in rows if place == partition] == [*range(330)] for partition in range(5))


def test_large_records_are_handed_on_few_at_a_time(kafka: Topics) -> None:
    kafka.create("f.large", settings={"max.message.bytes": str(16 << 20)})
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "message.max.bytes": 16 << 20})
    for n in range(12):
        producer.produce("f.large", bytes([n]) * (10 << 20), partition=0)
        assert producer.flush(seconds(60)) == 0
    batches = [*reader_of(kafka)([to_bytes([OffsetRange(("f.large", 0), 0, 12)])])]
    assert [value.as_py()[:1] for batch in batches for value in batch.column("value")] == [
        bytes([n]) for n in range(12)
    ]
    assert len(batches) > 1


def test_what_kafka_has_deleted_is_refused_or_passed_over(kafka: Topics) -> None:
    kafka.create("f.cut")
    kafka.produce("f.cut", numbered(20))
    kafka.delete_records("f.cut", 12)
    with pytest.raises(OffsetsNotThere, match="offsets 3 to 14 were planned, but Kafka holds 12 to 19"):
        offsets(reader_of(kafka), "f.cut", 3, 15)
    lenient = reader_of(kafka, goes_on=True)
    assert offsets(lenient, "f.cut", 3, 15) == [12, 13, 14]
    assert offsets(lenient, "f.cut", 3, 10) == []
    assert offsets(lenient, "f.cut", 12, 20) == [*range(12, 20)]


def test_what_a_partition_does_not_reach_is_refused_or_passed_over(
    kafka: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an election of a broker that was behind, or in a topic that was recreated."""
    monkeypatch.setattr(share_fetching, "_LOOK_S", 0.5)
    kafka.create("f.short")
    kafka.produce("f.short", numbered(5))
    for begin in (2, 9):
        with pytest.raises(OffsetsNotThere, match="Kafka holds 0 to 4"):
            offsets(reader_of(kafka), "f.short", begin, 12)
    lenient = reader_of(kafka, goes_on=True)
    assert offsets(lenient, "f.short", 2, 12) == [2, 3, 4]
    assert offsets(lenient, "f.short", 9, 12) == []


def test_a_topic_made_anew_is_read_by_the_same_consumer(kafka: Topics) -> None:
    reader = reader_of(kafka)
    for count in (8, 3):
        kafka.create("f.anew")
        kafka.produce("f.anew", numbered(count))
        assert offsets(reader, "f.anew", 0, count) == [*range(count)]
        kafka.delete("f.anew")


def test_a_consumer_stays_and_a_reading_that_is_given_up_leaves_it_usable(kafka: Topics) -> None:
    kafka.create("f.stays")
    kafka.produce("f.stays", numbered(2_000))
    reader = reader_of(kafka)
    given_up: Any = reader([to_bytes([OffsetRange(("f.stays", 0), 0, 2_000)])])
    next(given_up)
    given_up.close()
    before = {id(consumer) for consumer, *_ in share_fetching._consumers.held.values()}
    assert offsets(reader, "f.stays", 500, 700) == [*range(500, 700)]
    assert {id(consumer) for consumer, *_ in share_fetching._consumers.held.values()} == before
    for number in range(6):
        offsets(reader_of(kafka, client_id=str(number)), "f.stays", 0, 1)
    assert len(share_fetching._consumers.held) <= share_fetching._MOST_CONSUMERS


def test_a_broker_that_is_away_is_waited_for_and_then_an_outage(broker: KafkaBroker, kafka: Topics) -> None:
    kafka.create("f.away")
    kafka.produce("f.away", numbered(10))
    reader = reader_of(kafka)
    assert offsets(reader, "f.away", 0, 5) == [*range(5)]
    broker.kill()
    try:
        with pytest.raises(Outage, match="does not answer"):
            offsets(replace(reader, patience_s=1.0), "f.away", 5, 10)
    finally:
        broker.start()
    assert offsets(reader, "f.away", 5, 10) == [*range(5, 10)]


def test_a_port_where_nobody_answers_is_an_outage() -> None:
    nobody = Topics(f"127.0.0.1:{free_port()}")
    with pytest.raises(Outage, match=f"Kafka at {nobody.bootstrap_servers} does not answer"):
        offsets(reader_of(nobody, patience_s=0.5), "t", 0, 1)


def test_the_driver_reads_small_batches_and_leaves_others_to_tasks(kafka: Topics) -> None:
    kafka.create("small", partitions=2)
    kafka.produce("small", [TopicRecord(b"k", b"v" * 1000, partition=n % 2) for n in range(40)])
    read_here = SmallBatches(reader_of(kafka))

    records = read_here({("small", 0): (3, 20), ("small", 1): (7, 7)})
    assert records is not None
    assert [offset for batch in records for offset in batch.column("offset").to_pylist()] == [*range(3, 20)]
    assert read_here({("small", 0): (3, 3)}) == []
    assert read_here({("small", 0): (0, 30)}) is None, "offsets that Kafka lacks"


def test_the_driver_remembers_how_many_records_were_too_large(kafka: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_batches, "MOST_BYTES", 5000)
    kafka.create("large")
    kafka.produce("large", [TopicRecord(b"k", b"v" * 1000) for _ in range(40)])
    read_here = SmallBatches(reader_of(kafka))

    assert read_here({("large", 0): (0, 20)}) is None
    monkeypatch.setattr(small_batches, "MOST_BYTES", 1 << 20)
    assert read_here({("large", 0): (0, 20)}) is None
    assert read_here({("large", 0): (0, 3)}) is not None
