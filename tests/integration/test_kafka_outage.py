"""A broker that goes away, a topic recreated: what a running pipeline says and does."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from paimon_table import CommitKind, Table
from tests.stack.kafka import KafkaBroker
from tests.support.kafka_pipelines import insert_events, row_ids, table_names, write_kafka_pipeline
from tests.support.pipeline_run import running, wait_until
from tests.support.waiting import seconds

pytestmark = [pytest.mark.stack, pytest.mark.slow]
STEADY, ANEW = "c.steady", "c.anew"


def test_an_outage_and_a_topic_made_anew_are_told_while_they_last_and_afterwards(tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path / "broker")
    broker.start()
    log = tmp_path / "messages"

    def says(text: str) -> Callable[[], bool]:
        return lambda: text in log.read_text()

    try:
        servers = broker.bootstrap_servers
        for topic in (STEADY, ANEW):
            broker.topics.create(topic)
            broker.topics.produce(topic, insert_events(topic, range(20)))
        # Spark gives up after three of these timeouts; the watch beside it, which looks every 10 s, is to speak before.
        options = {"metadata.max.age.ms": "1000", "default.api.timeout.ms": "12000", "request.timeout.ms": "4000"}
        file = write_kafka_pipeline(tmp_path, servers, {"include": [r"c\..*"]}, options)
        with running(file, log) as process:
            wait_until(lambda: table_names(tmp_path) == {STEADY, ANEW}, 240, "two tables")
            wait_until(lambda: all(_appended(tmp_path, name) == 20 for name in (STEADY, ANEW)), 120, "their rows")
            broker.kill()
            wait_until(says("no answer from Kafka for"), 90, "a word about the outage")
            wait_until(says("(number 2)"), 120, "a second try")
            assert f"Kafka at {servers} does not answer" in log.read_text() and "Waiting since" in log.read_text()
            broker.start()
            wait_until(says("continues after"), 90, "a word about its end")
            broker.topics.produce(STEADY, insert_events(STEADY, range(20, 25)))
            wait_until(lambda: row_ids(tmp_path, STEADY) == list(range(25)), 120, "the rows after the outage")
            assert _appended(tmp_path, STEADY) == 25, "a record came in twice"

            broker.topics.delete(ANEW)
            broker.topics.create(ANEW)
            broker.topics.produce(ANEW, insert_events(ANEW, range(100, 103)))
            assert process.wait(timeout=seconds(120)) == 1, log.read_text()
        last = log.read_text().splitlines()[-1]
        assert f"topic {ANEW} partition 0" in last and "set `on_data_loss: continue`" in last
        assert "recreated" in last or "the topic was deleted" in last, "seen before it was there again"

        broker.stop()
        began = len(log.read_text())
        with running(file, log) as process:
            wait_until(lambda: "Waiting since" in log.read_text()[began:], 120, "a word about the broker that is down")
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=seconds(20)) == 0, log.read_text()
    finally:
        broker.stop()


def _appended(root: Path, table: str) -> int:
    """How many rows the batches have brought to a table."""
    snapshots = Table.open(f"{root}/shop/lake.db/{table}").snapshots.newest_first()
    return sum(s.delta_record_count or 0 for s in snapshots if s.commit_kind == CommitKind.APPEND)
