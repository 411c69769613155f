"""`tidemark plan` and `tidemark init` over a real broker: what they see of its topics, and that they leave no trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kafka.admin import KafkaAdminClient

from pipelines.config.config_file import load_pipeline
from pipelines.trial.trial_pipeline import TrialPipeline
from sources.changes import RECORD_SCHEMA
from tests.stack.topics import TopicRecord, Topics
from tests.support.command import tidemark
from tests.support.kafka_pipelines import insert_event, insert_events, write_kafka_pipeline

pytestmark = pytest.mark.stack


def planned(file: Path, *words: str) -> tuple[int, dict[str, Any]]:
    done = tidemark("plan", file, "--format", "json", *words)
    assert done.stderr == "", done.stderr
    return done.returncode, json.loads(done.stdout)


def test_topics_are_sampled_without_a_trace(tmp_path: Path, kafka: Topics) -> None:
    kafka.create("plan.orders", partitions=2)
    kafka.produce("plan.orders", [insert_event("plan.orders", n, n % 2) for n in range(100)])
    late = json.dumps({"op": "c", "after": {"id": 7, "n": 1, "late": True}, "source": {"table": "plan.orders"}})
    kafka.produce("plan.orders", [TopicRecord(b'{"id":7}', late.encode(), partition=0)])
    kafka.produce("plan.orders", [TopicRecord(b"{", b"{", partition=1)])
    kafka.create("__heartbeat.plan")
    file = write_kafka_pipeline(tmp_path, kafka.bootstrap_servers, ["plan.orders", "__heartbeat.plan"])
    names, left = kafka.names(), sorted(tmp_path.iterdir())

    code, document = planned(file, "--records", "8")

    (table,) = document["tables"]
    assert code == 3
    assert document["prerequisites"] == []
    assert document["sample"] == {"records": 8, "topics": {"__heartbeat.plan": 0, "plan.orders": 102}}
    assert [column["name"] for column in table["columns"]] == ["id", "n", "late"]
    assert [row["id"] for row in table["rows"]] == [0, 1, 2]
    assert [(kind["topic"], kind["first"]) for kind in document["quarantine"]] == [
        ("plan.orders", "plan.orders partition 1 offset 50")
    ]
    assert (kafka.names(), sorted(tmp_path.iterdir())) == (names, left)
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    try:
        assert not [group for group in admin.list_groups() if "tidemark" in str(group)]
    finally:
        admin.close()


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("earliest", 0),
        ("{ offsets: { plan.start: { 0: 20 } } }", 20),
        ("{ timestamp: '2024-05-01T00:00:00Z' }", 0),
        ("latest", 38),
    ],
)
def test_a_sample_begins_where_a_run_does(tmp_path: Path, kafka: Topics, start: str, first: int) -> None:
    if "plan.start" not in kafka.names():
        kafka.create("plan.start")
        kafka.produce("plan.start", insert_events("plan.start", range(40)))
    file = write_kafka_pipeline(tmp_path, kafka.bootstrap_servers, ["plan.start"], start=start)
    _, document = planned(file, "--records", "4")
    rows = [row["id"] for row in document["tables"][0]["rows"]]
    assert rows[0] == first


def test_what_the_topics_lack_is_told(tmp_path: Path, kafka: Topics) -> None:
    kafka.create("plan.kept", settings={"cleanup.policy": "compact"})
    kafka.create("plan.short", settings={"retention.ms": "1"})
    events = insert_events("plan.kept", range(5))
    kafka.produce("plan.kept", events)
    kafka.produce("plan.short", insert_events("plan.short", range(5)))
    missing = write_kafka_pipeline(tmp_path, kafka.bootstrap_servers, ["plan.kept", "plan.keptt"], name="missing")
    code, document = planned(missing)
    assert code == 2
    assert "1 listed topic is missing" in document["prerequisites"][0]["text"]
    assert "did you mean 'plan.kept'?" in document["prerequisites"][0]["text"]

    log = write_kafka_pipeline(tmp_path, kafka.bootstrap_servers, ["plan.kept"], name="log")
    rules = "tables: [{ match: { topic: plan.kept }, into: lake.kept, mode: append, on_change: log }]\n"
    log.write_text(log.read_text().partition("otherwise:")[0].replace("bucket: 1", "bucket: -1") + rules)
    code, document = planned(log)
    assert code == 3
    assert [f["level"] for f in document["prerequisites"]] == ["warning"]
    assert (
        "topic plan.kept is compacted, and table lake.kept has no primary key" in document["prerequisites"][0]["text"]
    )


def test_records_that_went_before_they_were_read_are_told(tmp_path: Path, kafka: Topics) -> None:
    kafka.create("plan.lost", settings={"retention.ms": "1000"})
    events = insert_events("plan.lost", range(10))
    kafka.produce("plan.lost", events)
    file = write_kafka_pipeline(tmp_path, kafka.bootstrap_servers, ["plan.lost"], name="own")
    file.write_text(file.read_text().replace("own-checkpoint", "checkpoint").replace("/own }", "/warehouse }"))
    place = {"topic": "plan.lost", "partition": 0, "timestamp": 0, "headers": None}
    rows = [{**place, "offset": n, "key": e.key, "value": e.value} for n, e in enumerate(events[:3])]
    TrialPipeline(load_pipeline(file), tmp_path).run(pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA))
    kafka.delete_records("plan.lost", 6)
    code, document = planned(file)
    assert code == 1
    (finding,) = [f for f in document["prerequisites"] if f["level"] == "error"]
    assert "topic plan.lost partition 0: offsets 3 to 5 are gone (retention, or deleted records)" in finding["text"]
    file.write_text(file.read_text().replace("on_data_loss: fail", "on_data_loss: continue"))
    code, document = planned(file)
    assert code == 0
    assert [f["level"] for f in document["prerequisites"]] == ["warning"]


def test_a_file_for_the_topics_of_a_cluster_is_valid_and_plans(tmp_path: Path, kafka: Topics) -> None:
    kafka.create("begin.orders", partitions=2)
    kafka.create("begin.empty")
    kafka.produce("begin.orders", [insert_event("begin.orders", n, n % 2) for n in range(4)])
    file = tmp_path / "begin.yaml"
    done = tidemark(
        "init", "--bootstrap-servers", kafka.bootstrap_servers, "--topics", r"begin\..*", "-o", file,
        "--property", "client.id=begin",
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr == f"{file}: pipeline begin reads 1 topic as debezium-json; 1 left out\n"
    assert "#   begin.empty: no records\n" in file.read_text()
    assert tidemark("validate", file).returncode == 0
    code, document = planned(file)
    assert (code, [row["id"] for row in document["tables"][0]["rows"]]) == (3, [0, 1, 2])


def test_a_cluster_that_does_not_answer_is_told(tmp_path: Path) -> None:
    done = tidemark("init", "--bootstrap-servers", "127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.startswith("Kafka at 127.0.0.1:1 does not answer")
