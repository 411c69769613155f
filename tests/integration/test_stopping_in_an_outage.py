"""SIGTERM while Kafka does not answer: what starts pipelines kills them after 30 seconds or 90."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.stack.kafka import KafkaBroker
from tests.stack.process import free_port
from tests.support.kafka_pipelines import insert_events, row_ids, write_kafka_pipeline
from tests.support.pipeline_run import run_once, running, wait_until
from tests.support.waiting import seconds

pytestmark = [pytest.mark.stack, pytest.mark.slow]
TOPIC = "c.orders"


def test_a_stop_while_kafka_does_not_answer_is_soon_and_loses_nothing(tmp_path: Path) -> None:
    """In a batch, which the next start does, and between two."""
    broker = KafkaBroker(tmp_path / "broker")
    broker.start()
    logs = [tmp_path / "in a batch", tmp_path / "between two"]
    try:
        broker.topics.create(TOPIC)
        broker.topics.produce(TOPIC, insert_events(TOPIC, range(500)))
        file = write_kafka_pipeline(tmp_path, broker.bootstrap_servers, {"include": [r"c\..*"]})
        with running(file, logs[0]) as process:
            wait_until(lambda: any(tmp_path.rglob("offsets/0")), 240, "a planned batch")
            _stop_in_an_outage(broker, process, logs[0], within_s=15)
        assert "abandons the running batch" in logs[0].read_text(), "the batch was done before the broker was gone"

        broker.start()
        with running(file, logs[1]) as process:
            wait_until(lambda: row_ids(tmp_path, TOPIC) == [*range(500)], 240, "the rows of the batch")
            _stop_in_an_outage(broker, process, logs[1], within_s=30)

        broker.start()
        broker.topics.produce(TOPIC, insert_events(TOPIC, range(500, 505)))
        again = run_once(file)
        assert again.returncode == 0, again.stderr
        assert row_ids(tmp_path, TOPIC) == [*range(505)]
    finally:
        broker.stop()


def _stop_in_an_outage(broker: KafkaBroker, process: subprocess.Popen[bytes], log: Path, within_s: float) -> None:
    broker.kill()
    wait_until(lambda: "no answer from Kafka for" in log.read_text(), 90, "a word about the outage")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=seconds(within_s)) == 0, log.read_text()
    assert "Traceback" not in log.read_text() and "ERROR" not in log.read_text()


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
