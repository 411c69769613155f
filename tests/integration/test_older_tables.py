"""Tables of a real broker that lack records when a run starts: they get what is missing, once.

One has lost snapshots, for its warehouse was put back from an older copy. The other was without one of its two rules
for a while, and without both. One process runs their pipelines.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from dataclasses import replace as with_values
from pathlib import Path

import pytest

from paimon_table import CommitKind, Table
from tests.stack.kafka import running_kafka
from tests.stack.topics import Topics
from tests.support.kafka_pipelines import insert_events, row_ids, write_kafka_pipeline
from tests.support.pipeline_run import run_together

pytestmark = [pytest.mark.stack, pytest.mark.slow]
BUSY, IDLE = "c.busy", "c.idle"
EAST, WEST = "s.east", "s.west"


@dataclass
class Routed:
    """A pipeline whose one table, a log of inserts, is fed by two topics, or by those that have a rule."""

    root: Path
    kafka: Topics
    count: int = 0

    def produce(self) -> None:
        """More records of both topics, of east from its second partition on later ones alone."""
        for topic, first in ((EAST, 0), (WEST, 1000)):
            partition = 1 if self.count >= 20 and topic == EAST else 0
            records = insert_events(topic, range(first + self.count, first + self.count + 10))
            self.kafka.produce(topic, [with_values(record, partition=partition) for record in records])
        self.count += 10

    def file(self, *topics: str) -> Path:
        """Records of other topics are skipped."""
        file = write_kafka_pipeline(self.root, self.kafka.bootstrap_servers, [EAST, WEST], name="routed", max_records=9)
        text = file.read_text().replace("defaults: { options: { bucket: 1 } }\n", "").partition("otherwise:")[0]
        rules = (f"  - {{ match: {{ topic: '{topic}' }}, into: lake.all, mode: append }}\n" for topic in topics)
        file.write_text(f"{text}otherwise: skip\ntables:\n{''.join(rules)}")
        return file


def test_what_tables_lack_at_a_start_is_read_once(tmp_path: Path) -> None:
    with running_kafka(tmp_path / "broker") as kafka:
        for topic, partitions in ((BUSY, 1), (IDLE, 1), (EAST, 2), (WEST, 2)):
            kafka.create(topic, partitions)
        for topic in (BUSY, IDLE):
            kafka.produce(topic, insert_events(topic, range(5)))
        restored = write_kafka_pipeline(tmp_path, kafka.bootstrap_servers, [BUSY, IDLE])
        routed = Routed(tmp_path, kafka)

        def run(busy: range, *routes: str) -> str:
            kafka.produce(BUSY, insert_events(BUSY, busy))
            routed.produce()
            done = run_together([restored, routed.file(*routes)])
            assert done.returncode == 0, done.stderr
            return done.stderr

        run(range(5, 10), EAST, WEST)
        shutil.copytree(tmp_path / "shop", tmp_path / "copy")
        assert f"no rule routes records of {EAST} (topic {EAST}) to it;" in run(range(10, 20), WEST)
        shutil.rmtree(tmp_path / "shop")
        shutil.copytree(tmp_path / "copy", tmp_path / "shop")

        told = run(range(20, 25), "another table")

        assert f"table lake.{BUSY}: it lacks the last" in told and f"lake.{IDLE}: it lacks" not in told
        assert row_ids(tmp_path, BUSY) == [*range(25)], told
        assert row_ids(tmp_path, IDLE) == [*range(5)]
        snapshots = Table.open(f"{tmp_path}/shop/lake.db/{BUSY}").snapshots.newest_first()
        assert sum(s.delta_record_count or 0 for s in snapshots if s.commit_kind == CommitKind.APPEND) == 25

        told = run(range(25, 30), EAST, WEST)

        assert "table lake.all" in told and "Tidemark catches it up alongside the stream" in told
        assert row_ids(tmp_path, "all", "routed") == [*range(routed.count), *range(1000, 1000 + routed.count)], told
