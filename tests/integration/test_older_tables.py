"""A warehouse that is put back from a copy older than the checkpoint: the tables get what lies between, once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from paimon_table import CommitKind, Table
from tests.stack.kafka import running_kafka
from tests.support.kafka_pipelines import insert_events, row_ids, write_kafka_pipeline
from tests.support.pipeline_run import run_together

pytestmark = [pytest.mark.stack, pytest.mark.slow]
TOPICS = ("c.busy", "c.idle")


def test_a_warehouse_older_than_the_checkpoint_is_caught_up(tmp_path: Path) -> None:
    with running_kafka(tmp_path / "broker") as kafka:
        file = write_kafka_pipeline(tmp_path, kafka.bootstrap_servers, [*TOPICS])

        def read(topic: str, begin: int, end: int) -> str:
            kafka.produce(topic, insert_events(topic, range(begin, end)))
            done = run_together([file])
            assert done.returncode == 0, done.stderr
            return done.stderr

        for topic in TOPICS:
            kafka.create(topic)
            kafka.produce(topic, insert_events(topic, range(5)))
        read("c.busy", 5, 10)
        shutil.copytree(tmp_path / "shop", tmp_path / "copy")
        read("c.busy", 10, 20)
        shutil.rmtree(tmp_path / "shop")
        shutil.copytree(tmp_path / "copy", tmp_path / "shop")

        told = read("c.busy", 20, 25)

        assert "table lake.c.busy: it lacks the last" in told and "lake.c.idle: it lacks" not in told
        assert row_ids(tmp_path, "c.busy") == [*range(25)], told
        assert row_ids(tmp_path, "c.idle") == [*range(5)]
        snapshots = Table.open(f"{tmp_path}/shop/lake.db/c.busy").snapshots.newest_first()
        assert sum(s.delta_record_count or 0 for s in snapshots if s.commit_kind == CommitKind.APPEND) == 25
