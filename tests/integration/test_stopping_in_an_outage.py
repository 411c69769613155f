"""SIGTERM while Kafka does not answer between two batches: what starts pipelines kills them after 30 seconds or 90."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from tests.stack.kafka import KafkaBroker
from tests.stack.process import free_port
from tests.support.kafka_pipelines import insert_events, row_ids, table_names, write_kafka_pipeline
from tests.support.pipeline_run import run_once, running, wait_until
from tests.support.waiting import seconds

pytestmark = [pytest.mark.stack, pytest.mark.slow]
TOPIC = "c.orders"


def test_a_batch_that_waits_for_kafka_is_given_up_by_a_stop_and_done_at_the_next_start(tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path / "broker")
    broker.start()
    log = tmp_path / "messages"
    try:
        broker.topics.create(TOPIC)
        broker.topics.produce(TOPIC, insert_events(TOPIC, range(500)))
        file = write_kafka_pipeline(tmp_path, broker.bootstrap_servers, {"include": [r"c\..*"]})
        with running(file, log) as process:
            wait_until(lambda: any(tmp_path.rglob("offsets/0")), 240, "a planned batch")
            broker.kill()
            wait_until(lambda: "no answer from Kafka for" in log.read_text(), 90, "a word about the outage")
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=seconds(15)) == 0, log.read_text()
        told = log.read_text()
        assert "gives up the running batch" in told, "the batch was done before the broker was gone"
        assert "Traceback" not in told and "ERROR" not in told

        broker.start()
        again = run_once(file)
        assert again.returncode == 0, again.stderr
        assert row_ids(tmp_path, TOPIC) == [*range(500)]
    finally:
        broker.stop()


def test_a_pipeline_that_asks_kafka_in_vain_stops_soon_and_loses_nothing(tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path / "broker")
    broker.start()
    log = tmp_path / "messages"
    try:
        broker.topics.create(TOPIC)
        broker.topics.produce(TOPIC, insert_events(TOPIC, range(20)))
        file = write_kafka_pipeline(tmp_path, broker.bootstrap_servers, {"include": [r"c\..*"]})
        with running(file, log) as process:
            wait_until(
                lambda: table_names(tmp_path) == {TOPIC} and row_ids(tmp_path, TOPIC) == [*range(20)], 240, "rows"
            )
            broker.kill()
            wait_until(lambda: "no answer from Kafka for" in log.read_text(), 90, "a word about the outage")
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=seconds(30)) == 0, log.read_text()
        assert "Traceback" not in log.read_text() and "ERROR" not in log.read_text()

        broker.start()
        broker.topics.produce(TOPIC, insert_events(TOPIC, range(20, 25)))
        again = run_once(file)
        assert again.returncode == 0, again.stderr
        assert row_ids(tmp_path, TOPIC) == [*range(25)]
    finally:
        broker.stop()


def test_a_jvm_that_dies_while_kafka_is_waited_for_ends_the_process(tmp_path: Path) -> None:
    """No query tells of it, and that nobody answers in its place looks like trouble that passes."""
    log = tmp_path / "messages"
    file = write_kafka_pipeline(tmp_path, f"127.0.0.1:{free_port()}", {"include": [r"c\..*"]})
    with running(file, log) as process:
        wait_until(lambda: "Waiting since" in log.read_text(), 240, "a word about the outage")
        (jvm,) = [child for child in psutil.Process(process.pid).children() if "java" in child.name()]
        jvm.kill()
        assert process.wait(timeout=seconds(60)) == 1, log.read_text()
    assert "Spark's JVM has ended" in log.read_text()
    assert "Traceback" not in log.read_text()
