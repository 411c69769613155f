"""A topic to which a router brings several source tables, read by several pipelines into one event log; real Kafka."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.stack.topics import TopicRecord, Topics
from tests.support.kafka_pipelines import row_ids, write_kafka_pipeline
from tests.support.pipeline_run import run_once, run_together

pytestmark = pytest.mark.stack

TOPIC = "routed.all"


def changes(table: str, *ids: int) -> list[TopicRecord]:
    """Inserts into one of the source tables of the topic."""
    values = [(i, {"before": None, "after": {"id": i}, "op": "c", "source": {"table": table}}) for i in ids]
    return [TopicRecord(json.dumps({"id": i}).encode(), json.dumps(value).encode()) for i, value in values]


def log_of(root: Path, servers: str, name: str, table: str, topics: object) -> Path:
    """A pipeline that appends the changes of one source table to the event log of all."""
    file = write_kafka_pipeline(root, servers, topics, name=name)
    rule = f"tables: [{{ match: {{ table: {table} }}, into: lake.log, mode: append, on_change: log }}]\n"
    text = file.read_text().replace(f"{root}/{name} }}", f"{root}/all }}").replace("bucket: 1", "bucket: -1")
    file.write_text(text.partition("otherwise:")[0] + rule + "otherwise: skip\n")
    return file


def test_each_pipeline_brings_its_own_source_tables_and_none_those_of_another(tmp_path: Path, kafka: Topics) -> None:
    servers = kafka.bootstrap_servers
    kafka.create(TOPIC)
    kafka.produce(TOPIC, [*changes("orders", 1, 2), *changes("items", 11)])
    done = run_together([log_of(tmp_path, servers, table, table, [TOPIC]) for table in ("orders", "items")])
    assert done.returncode == 0, done.stderr

    copy = run_once(log_of(tmp_path, servers, "copy", "orders", {"include": [r"routed\..*"]}))

    assert copy.returncode == 2, copy.stderr
    assert f"table lake.log has records of topic {TOPIC} from pipeline orders" in copy.stderr
    assert f"`start: {{offsets: {{{TOPIC}: {{0: 3}}}}}}`" in copy.stderr
    assert "Traceback" not in copy.stderr
    assert row_ids(tmp_path, "log", "all") == [1, 2, 11]
