"""A pipeline that reads a real broker, looked at from outside while it runs."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient
from prometheus_client.parser import text_string_to_metric_families

from tests.stack.process import free_port
from tests.stack.topics import Topics
from tests.support.kafka_pipelines import insert_event, insert_events, write_kafka_pipeline
from tests.support.pipeline_run import running, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.spark]
TOPIC = "look.public.orders"
GROUP = "look-lake"


def group_offsets(kafka: Topics) -> dict[int, int]:
    """What Kafka's own tools show of the group."""
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    try:
        found = admin.list_group_offsets({GROUP: None})[GROUP]
        return {place.partition: at.offset for place, at in found.items() if place.topic == TOPIC}
    finally:
        admin.close()


def answer(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as found:
        text: str = found.read().decode()
        return text


def numbers(url: str, name: str) -> dict[str, float]:
    """The series of one metric, by the values of its labels."""
    families = text_string_to_metric_families(answer(f"{url}/metrics"))
    samples = (sample for family in families for sample in family.samples if sample.name == name)
    return {"|".join(sample.labels[key] for key in sorted(sample.labels)): sample.value for sample in samples}


def test_metrics_probes_and_offsets_of_the_group_follow_a_running_pipeline(kafka: Topics, tmp_path: Path) -> None:
    # given two partitions, one of them empty, and a pipeline that lets others look
    kafka.create(TOPIC, partitions=2)
    kafka.produce(TOPIC, insert_events(TOPIC, range(100)))
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    file = write_kafka_pipeline(tmp_path, kafka.bootstrap_servers, [TOPIC])
    text = file.read_text().replace("    start:", f"    group_id: {GROUP}\n    start:")
    file.write_text(f"{text}metrics: {{ port: {port} }}\n")

    with running(file, tmp_path / "log") as process:
        wait_until(lambda: (tmp_path / "log").read_text().count("batch 0:") == 1, 120, "the first batch")

        # then the numbers are those of the topic and of the table
        assert numbers(url, "tidemark_records_total") == {"shop": 100}
        assert list(numbers(url, "tidemark_table_events_total").values()) == [100]
        wait_until(
            lambda: numbers(url, "tidemark_lag_records") == {"0|shop|" + TOPIC: 0, "1|shop|" + TOPIC: 0}, 60, "no lag"
        )
        assert json.loads(answer(f"{url}/readyz"))["status"] == "ok"
        assert {*numbers(url, "tidemark_memory_bytes")} == {"driver", "jvm", "workers"}
        assert all(size > 1 << 24 for size in numbers(url, "tidemark_memory_bytes").values())

        # and Kafka knows how far the tables are
        wait_until(lambda: group_offsets(kafka) == {0: 100, 1: 0}, 60, "the offsets of the group")

        # when more records come, it is told those too, at the latest when the pipeline stops
        kafka.produce(TOPIC, [insert_event(TOPIC, 500, partition=1)])
        wait_until(lambda: numbers(url, "tidemark_records_total") == {"shop": 101}, 60, "the second batch")
        process.terminate()
        assert process.wait(timeout=120) == 0
    assert group_offsets(kafka) == {0: 100, 1: 1}
