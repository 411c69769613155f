"""Which topics and which records of a real broker reach the tables: neighbours of patterns, aborted transactions."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka import KafkaProducer

from tests.stack.topics import Topics
from tests.support.kafka_pipelines import (
    insert_event,
    insert_events,
    row_ids,
    table_names,
    write_kafka_pipeline,
)
from tests.support.pipeline_run import run_together

pytestmark = pytest.mark.stack

INCLUDED = {"c.orders", "c.items"}
NEIGHBOURS = {"public.c.orders", "publi.c.orders", "abc.orders", "c.orders2.private", "c.secret", "cx.orders"}
ONE_NAME = {"pat.public.orders"}
NEAR_ONE_NAME = {"pat.public.orders_archive", "xpat.public.orders", "pat.public.orders.old"}
TRANSACTIONS = "tx.all"
ENDS_ABORTED = "tx.ends_aborted"
ONLY_ABORTED = "tx.only_aborted"


def _transactions(servers: str, topic: str, outcomes: str) -> list[int]:
    """One transaction of ten records per letter, (c)ommitted or (a)borted; the ids of the committed ones."""
    producer = KafkaProducer(bootstrap_servers=servers, transactional_id=f"writer-of-{topic}", acks="all")
    committed: list[int] = []
    try:
        producer.init_transactions()
        for number, outcome in enumerate(outcomes):
            ids = list(range(number * 10, number * 10 + 10))
            producer.begin_transaction()
            for record in insert_events(topic, ids):
                producer.send(topic, value=record.value, key=record.key, partition=0)
            producer.flush()
            if outcome == "c":
                producer.commit_transaction()
                committed += ids
            else:
                producer.abort_transaction()
    finally:
        producer.close()
    return committed


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, kafka: Topics) -> Path:
    """The directory of pipelines that have read the topics of this module, all in one run of the command."""
    root = tmp_path_factory.mktemp("kafka_source")
    servers = kafka.bootstrap_servers
    for topic in sorted(INCLUDED | NEIGHBOURS | ONE_NAME | NEAR_ONE_NAME):
        kafka.create(topic)
        kafka.produce(topic, [insert_event(topic, 1)])
    kafka.create("compacted.orders", settings={"cleanup.policy": "compact"})
    kafka.produce("compacted.orders", [insert_event("compacted.orders", 1)])
    for topic in (TRANSACTIONS, ENDS_ABORTED, ONLY_ABORTED):
        kafka.create(topic)
    committed = {
        TRANSACTIONS: _transactions(servers, TRANSACTIONS, "acacc"),
        ENDS_ABORTED: _transactions(servers, ENDS_ABORTED, "caa"),
        ONLY_ABORTED: _transactions(servers, ONLY_ABORTED, "aa"),
    }
    (root / "committed").mkdir()
    for topic, ids in committed.items():
        (root / "committed" / topic).write_text(",".join(map(str, ids)))
    patterns = {"include": [r"c\..*"], "exclude": [r".*\.secret", "c.orders2.*"]}
    transactional = {"include": [r"tx\..*"]}
    files = [
        write_kafka_pipeline(root, servers, patterns, name="included"),
        write_kafka_pipeline(root, servers, {"include": [r"pat\.public\.orders"]}, name="one"),
        write_kafka_pipeline(root, servers, transactional, name="committed_only", max_records=40),
        write_kafka_pipeline(root, servers, {"include": [r"compacted\..*"]}, name="compacted"),
        write_kafka_pipeline(root, servers, transactional, {"isolation.level": "read_uncommitted"}, name="everything"),
    ]
    for number in range(2):
        done = run_together(files)
        assert done.returncode == 0, done.stderr
        (root / f"messages.{number}").write_text(done.stderr)
    return root


@pytest.mark.parametrize(("pipeline", "wanted"), [("included", INCLUDED), ("one", ONE_NAME)])
def test_a_pattern_reads_the_topics_whose_whole_name_it_matches(root: Path, pipeline: str, wanted: set[str]) -> None:
    assert table_names(root, pipeline) == wanted


def _committed(root: Path, topic: str) -> list[int]:
    text = (root / "committed" / topic).read_text()
    return [int(part) for part in text.split(",") if part]


@pytest.mark.parametrize("topic", [TRANSACTIONS, ENDS_ABORTED])
def test_records_of_aborted_transactions_are_not_stored(root: Path, topic: str) -> None:
    assert row_ids(root, topic, "committed_only") == _committed(root, topic)
    assert len(_committed(root, topic)) < len(row_ids(root, topic, "everything"))


def test_a_topic_of_aborted_transactions_only_makes_no_table(root: Path) -> None:
    assert ONLY_ABORTED not in table_names(root, "committed_only")
    assert ONLY_ABORTED in table_names(root, "everything")


def test_a_run_that_starts_behind_aborted_records_ends_with_nothing_to_do(root: Path) -> None:
    ran_batches = [" committed_only: batch " in (root / f"messages.{number}").read_text() for number in range(2)]
    assert ran_batches == [True, False]


def test_a_compacted_topic_is_told_of(root: Path) -> None:
    told = [line for line in (root / "messages.0").read_text().splitlines() if "compacted (cleanup.policy)" in line]
    assert len(told) == 1 and "topic compacted.orders is compacted" in told[0]
    assert row_ids(root, "compacted.orders", "compacted") == [1]
