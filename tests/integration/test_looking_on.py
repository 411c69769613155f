"""A pipeline that reads a real broker, looked at from outside while it runs."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient
from kafka.errors import CoordinatorNotAvailableError
from prometheus_client.parser import text_string_to_metric_families

from paimon_table import Table
from tests.stack.process import free_port
from tests.stack.topics import Topics
from tests.support.command import tidemark
from tests.support.kafka_pipelines import insert_event, insert_events, row_ids, write_kafka_pipeline
from tests.support.pipeline_run import running, wait_until
from tests.support.waiting import seconds

pytestmark = [pytest.mark.stack, pytest.mark.spark]
TOPIC = "look.public.orders"
GROUP = "look-lake"


def group_offsets(kafka: Topics) -> dict[int, int]:
    """What Kafka's own tools show of the group; nothing before there is one."""
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    try:
        found = admin.list_group_offsets({GROUP: None})[GROUP]
        return {place.partition: at.offset for place, at in found.items() if place.topic == TOPIC}
    except CoordinatorNotAvailableError:
        return {}
    finally:
        admin.close()


def answer(url: str) -> str:
    with urllib.request.urlopen(url, timeout=seconds(20)) as found:
        text: str = found.read().decode()
        return text


def numbers(url: str, name: str) -> dict[str, float]:
    """The series of one metric, by the values of its labels."""
    families = text_string_to_metric_families(answer(f"{url}/metrics"))
    samples = (sample for family in families for sample in family.samples if sample.name == name)
    return {"|".join(sample.labels[key] for key in sorted(sample.labels)): sample.value for sample in samples}


def asked(url: str, token: str, action: str) -> str:
    """What the running pipeline says to an action that the page asks for."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = json.dumps({"pipeline": "shop", "table": f"lake.{TOPIC}", "action": action}).encode()
    with urllib.request.urlopen(
        urllib.request.Request(f"{url}/api/actions", body, headers), timeout=seconds(20)
    ) as answer:
        number = json.loads(answer.read())["number"]
    found = {"state": "working", "text": ""}

    def is_done() -> bool:
        request = urllib.request.Request(f"{url}/api/actions?number={number}", headers=headers)
        with urllib.request.urlopen(request, timeout=seconds(20)) as answer:
            found.update(json.loads(answer.read()))
        return found["state"] != "working"

    wait_until(is_done, 60, f"the answer to {action}")
    assert found["state"] == "done", found
    return found["text"]


def test_what_is_seen_of_a_running_pipeline_follows_it(kafka: Topics, tmp_path: Path) -> None:
    # given two partitions, one of them empty, and a pipeline that lets others look
    kafka.create(TOPIC, partitions=2)
    kafka.produce(TOPIC, insert_events(TOPIC, range(100)))
    port, page_port = free_port(), free_port()
    url, page = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{page_port}"
    file = write_kafka_pipeline(tmp_path, kafka.bootstrap_servers, [TOPIC])
    text = file.read_text().replace("    start:", f"    group_id: {GROUP}\n    start:")
    file.write_text(f"{text}metrics: {{ port: {port} }}\nui: {{ port: {page_port} }}\n")

    with running(file, tmp_path / "log") as process:
        wait_until(lambda: (tmp_path / "log").read_text().count("batch 0:") == 1, 120, "the first batch")

        # then the numbers are those of the topic and of the table
        wait_until(lambda: numbers(url, "tidemark_records_total") == {"shop": 100}, 30, "the records of the batch")
        wait_until(lambda: [*numbers(url, "tidemark_table_events_total").values()] == [100], 30, "their events")
        wait_until(
            lambda: numbers(url, "tidemark_lag_records") == {"0|shop|" + TOPIC: 0, "1|shop|" + TOPIC: 0}, 60, "no lag"
        )
        assert json.loads(answer(f"{url}/readyz"))["status"] == "ok"
        parts = {"driver", "jvm", "workers"}
        wait_until(lambda: {*numbers(url, "tidemark_memory_bytes")} == parts, 30, "the memory of all processes")
        assert all(size > 1 << 24 for size in numbers(url, "tidemark_memory_bytes").values())

        # and Kafka knows how far the tables are
        wait_until(lambda: group_offsets(kafka) == {0: 100, 1: 0}, 60, "the offsets of the group")

        # and the same is seen in a terminal
        def status() -> tuple[int, int]:
            (state,) = json.loads(tidemark("status", file, "--json").stdout)
            return state["pid"], state["pipelines"][0]["records"]

        wait_until(lambda: status() == (process.pid, 100), 20, "the records in the status")

        # when the table is paused on the page, more records wait, until it is resumed
        (token,) = [path.read_text().strip() for path in tmp_path.glob("*/tidemark/ui-token")]
        assert "is paused" in asked(page, token, "pause")
        paused = f"shop|paused|lake.{TOPIC}"
        wait_until(lambda: numbers(url, "tidemark_table_state")[paused] == 1, 30, "a paused table")
        kafka.produce(TOPIC, [insert_event(TOPIC, 500, partition=1)])
        wait_until(lambda: numbers(url, "tidemark_records_total") == {"shop": 101}, 60, "the second batch")
        assert len(row_ids(tmp_path, TOPIC)) == 100
        assert "catching up" in asked(page, token, "resume")
        wait_until(lambda: len(row_ids(tmp_path, TOPIC)) == 101, 60, "the row that waited")

        # then what was written beside the stream is counted, and the table stands as it is
        wait_until(
            lambda: [*numbers(url, "tidemark_table_events_total").values()] == [101], 30, "the event that waited"
        )
        newest = Table.open(f"{tmp_path}/shop/lake.db/{TOPIC}").snapshots.latest_id()
        wait_until(lambda: [*numbers(url, "tidemark_table_snapshot_id").values()] == [newest], 30, "the snapshot")
        wait_until(lambda: numbers(url, "tidemark_table_beside_records") == {}, 30, "the end of the catch-up")

        # then Kafka is told of those too, at the latest when the pipeline stops
        process.terminate()
        assert process.wait(timeout=seconds(120)) == 0
    assert group_offsets(kafka) == {0: 100, 1: 1}
