"""Which topics and which records of a real broker reach the tables: neighbours of patterns, aborted transactions.

Also topics of Avro records, topics to which a router brings several source tables, and pipelines that find nothing.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kafka import KafkaProducer

from paimon_table import Table
from tests.integration import avro_framings
from tests.stack.topics import TopicRecord, Topics
from tests.support.command import undated
from tests.support.kafka_pipelines import (
    insert_event,
    insert_events,
    row_ids,
    table_names,
    write_kafka_pipeline,
)
from tests.support.pipeline_run import run_once, run_together
from tests.support.registry_server import running_registry

pytestmark = pytest.mark.stack

INCLUDED = {"c.orders", "c.items"}
NEIGHBOURS = {"public.c.orders", "publi.c.orders", "abc.orders", "c.orders2.private", "c.secret", "cx.orders"}
ONE_NAME = {"pat.public.orders"}
NEAR_ONE_NAME = {"pat.public.orders_archive", "xpat.public.orders", "pat.public.orders.old"}
TRANSACTIONS = "tx.all"
ENDS_ABORTED = "tx.ends_aborted"
ONLY_ABORTED = "tx.only_aborted"
ROUTED = "routed.all"


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


def _changes(table: str, *ids: int) -> list[TopicRecord]:
    """Inserts into one of the source tables of the routed topic."""
    values = [(i, {"before": None, "after": {"id": i}, "op": "c", "source": {"table": table}}) for i in ids]
    return [TopicRecord(json.dumps({"id": i}).encode(), json.dumps(value).encode()) for i, value in values]


def _log_of(root: Path, servers: str, name: str, table: str, topics: object) -> Path:
    """A pipeline that appends the changes of one source table to the event log of all."""
    file = write_kafka_pipeline(root, servers, topics, name=name)
    rule = f"tables: [{{ match: {{ table: {table} }}, into: lake.log, mode: append, on_change: log }}]\n"
    text = file.read_text().replace(f"{root}/{name} }}", f"{root}/all }}").replace("bucket: 1", "bucket: -1")
    file.write_text(text.partition("otherwise:")[0] + rule + "otherwise: skip\n")
    return file


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, kafka: Topics) -> Path:
    """The directory of pipelines that have read the topics of this module, all in one run of the command.

    In a second run one of them finds nothing new, and two find nothing at all.
    """
    root = tmp_path_factory.mktemp("kafka_source")
    servers = kafka.bootstrap_servers
    for topic in sorted(INCLUDED | NEIGHBOURS | ONE_NAME | NEAR_ONE_NAME):
        kafka.create(topic)
        kafka.produce(topic, [insert_event(topic, 1)])
    kafka.create("compacted.orders", settings={"cleanup.policy": "compact"})
    kafka.produce("compacted.orders", [insert_event("compacted.orders", 1)])
    kafka.create(ROUTED)
    kafka.produce(ROUTED, [*_changes("orders", 1, 2), *_changes("items", 11)])
    avro_framings.fill(kafka)
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
    files += [_log_of(root, servers, table, table, [ROUTED]) for table in ("orders", "items")]
    with running_registry(avro_framings.registry()) as registry:
        done = run_together([*files, avro_framings.write_framed(root, servers, registry.url())])
    assert done.returncode == 0, done.stderr
    (root / "messages").write_text(done.stderr)
    (root / "asked_for").write_text(json.dumps([path for path, _ in registry.requests]))
    start = "{ timestamp: '2099-01-01T00:00:00Z' }"
    again = [
        files[2],
        write_kafka_pipeline(root, servers, {"include": [r"pat\.public\.order"]}, name="none"),
        write_kafka_pipeline(root, servers, [*ONE_NAME], name="late", start=start),
    ]
    done = run_together(again)
    (root / "second.json").write_text(json.dumps([done.returncode, done.stdout, done.stderr]))
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
    _, _, messages = json.loads((root / "second.json").read_text())
    ran_batches = [" committed_only: batch " in text for text in ((root / "messages").read_text(), messages)]
    assert ran_batches == [True, False]


def test_no_topic_and_no_record_behind_the_start_are_told(root: Path) -> None:
    code, out, messages = json.loads((root / "second.json").read_text())
    assert code == 1
    assert "none: nothing was read\n" in out
    assert "late: nothing was read: source.kafka.start (2099-01-01T00:00:00+00:00) is later than" in out
    last = messages.splitlines()[-1]
    assert undated(last).startswith("pipeline none: no topics of Kafka at")
    assert "did you mean 'pat.public.orders'?" in last
    assert "no topics of Kafka at" in messages.partition("starting Spark")[0]


def test_a_listed_topic_that_is_not_there_is_refused_before_spark_starts(tmp_path: Path, kafka: Topics) -> None:
    kafka.create("nothing.items")
    done = run_once(write_kafka_pipeline(tmp_path, kafka.bootstrap_servers, ["nothing.itemz"]))

    assert done.returncode == 2
    assert "'nothing.itemz' (did you mean 'nothing.items'?)" in done.stderr
    assert "starting Spark" not in done.stderr


def test_a_compacted_topic_is_told_of(root: Path) -> None:
    told = [line for line in (root / "messages").read_text().splitlines() if "compacted (cleanup.policy)" in line]
    assert len(told) == 1 and "topic compacted.orders is compacted" in told[0]
    assert row_ids(root, "compacted.orders", "compacted") == [1]


def test_avro_records_of_every_framing_come_from_one_topic(root: Path) -> None:
    stored = Table.open(f"{root}/framed/lake.db/orders").to_arrow().to_pylist()
    assert sorted((row["id"], row["v"]) for row in stored) == [(2, "v2"), (3, "v3"), (4, "v4")]
    assert not (root / "framed-checkpoint-quarantine").exists()
    assert {*json.loads((root / "asked_for").read_text())} == avro_framings.asked_for()


def test_each_pipeline_brings_its_own_source_tables_and_none_those_of_another(root: Path, kafka: Topics) -> None:
    assert row_ids(root, "log", "all") == [1, 2, 11]

    copy = run_once(_log_of(root, kafka.bootstrap_servers, "copy", "orders", {"include": [r"routed\..*"]}))

    assert copy.returncode == 2, copy.stderr
    assert f"table lake.log has records of topic {ROUTED} from pipeline orders" in copy.stderr
    assert f"`start: {{offsets: {{{ROUTED}: {{0: 3}}}}}}`" in copy.stderr
    assert "Traceback" not in copy.stderr
    assert row_ids(root, "log", "all") == [1, 2, 11]
