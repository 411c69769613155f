"""One process with pipelines of two Kafka clusters, which have topics of the same names."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from paimon_table.table import Table
from sinks.commit.positions import OFFSETS_PROPERTY
from tests.stack.kafka import running_kafka
from tests.stack.process import free_port
from tests.stack.topics import Topics
from tests.support.kafka_pipelines import insert_event, insert_events, row_ids, table_names, write_kafka_pipeline
from tests.support.pipeline_run import running, wait_until
from tests.support.waiting import seconds

pytestmark = [pytest.mark.stack, pytest.mark.spark]
TOPIC = "twin.public.orders"


def position(root: Path, name: str) -> object:
    """How far the table of a pipeline is in its topic."""
    snapshot = Table.open(f"{root}/{name}/lake.db/{TOPIC}").snapshots.latest()
    assert snapshot is not None and snapshot.properties is not None
    return json.loads(snapshot.properties[OFFSETS_PROPERTY])


def content(root: Path) -> dict[str, list[int]]:
    """The ids of the rows of the tables that are there, by pipeline."""
    return {name: row_ids(root, TOPIC, name) for name in ("east", "west") if table_names(root, name) == {TOPIC}}


def numbers(url: str, name: str) -> dict[tuple[str, ...], float]:
    """The series of one metric, by pipeline, topic and partition."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=seconds(20)) as found:
        families = text_string_to_metric_families(found.read().decode())
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return {
        tuple(s.labels[label] for label in ("pipeline", "topic", "partition") if label in s.labels): s.value
        for s in samples
    }


def test_topics_of_the_same_name_stay_apart(kafka: Topics, tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with running_kafka(tmp_path / "broker", settings={}) as other:
        # given a topic of one name in two clusters, with other partitions, and a pipeline of each
        kafka.create(TOPIC)
        other.create(TOPIC, partitions=2)
        kafka.produce(TOPIC, insert_events(TOPIC, range(10)))
        other.produce(TOPIC, [insert_event(TOPIC, 100 + n, partition=n % 2) for n in range(5)])
        files = [
            write_kafka_pipeline(tmp_path, topics.bootstrap_servers, [TOPIC], name=name)
            for name, topics in (("east", kafka), ("west", other))
        ]
        files[0].write_text(f"{files[0].read_text()}metrics: {{ port: {port} }}\n")

        # when both run in one process, and more records come to one cluster
        with running(files, tmp_path / "log"):
            wait_until(lambda: content(tmp_path) == {"east": [*range(10)], "west": [*range(100, 105)]}, 180, "all rows")
            other.produce(TOPIC, [insert_event(TOPIC, 105, partition=1)])
            wait_until(lambda: content(tmp_path)["west"][-1] == 105, 60, "the new row")

            # then the metrics tell both apart
            lag = {("east", TOPIC, "0"): 0, ("west", TOPIC, "0"): 0, ("west", TOPIC, "1"): 0}
            wait_until(lambda: numbers(url, "tidemark_lag_records") == lag, 60, "no lag in either cluster")
            records = {("east",): 10, ("west",): 6}
            wait_until(lambda: numbers(url, "tidemark_records_total") == records, 60, "all records counted")

    # and each table has the rows and the position of its own cluster alone
    assert content(tmp_path) == {"east": [*range(10)], "west": [*range(100, 106)]}
    assert position(tmp_path, "east") == {TOPIC: {"0": 10}}
    assert position(tmp_path, "west") == {TOPIC: {"0": 3, "1": 3}}
