"""One of two rules of a table is away for a while: the table has every record once when it is back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from paimon_table import Table
from tests.stack.kafka import running_kafka
from tests.stack.topics import TopicRecord
from tests.support.kafka_pipelines import insert_events, write_kafka_pipeline
from tests.support.pipeline_run import run_together

pytestmark = [pytest.mark.stack, pytest.mark.slow]
EAST, WEST = "s.east", "s.west"


def _rule(topic: str) -> str:
    return f"  - {{ match: {{ topic: '{topic}' }}, into: lake.all, mode: append, merge_sources: disjoint_keys }}\n"


def _pipeline(root: Path, servers: str, *topics: str) -> Path:
    """A log of the inserts of these topics; records of others are skipped."""
    file = write_kafka_pipeline(root, servers, [EAST, WEST], max_records=9)
    text = file.read_text().replace("defaults: { options: { bucket: 1 } }\n", "")
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith("otherwise:")]
    rules = "".join(map(_rule, topics)).replace(", merge_sources: disjoint_keys", "")
    file.write_text("".join(lines) + "otherwise: skip\ntables:\n" + rules)
    return file


def _ids(root: Path) -> list[int]:
    return sorted(row["id"] for row in Table.open(f"{root}/shop/lake.db/all").to_arrow().to_pylist())


def _on(records: list[TopicRecord], partition: int) -> list[TopicRecord]:
    return [replace(record, partition=partition) for record in records]


@pytest.mark.parametrize("away", [[WEST, "another table"]], ids=["one, then all"])
def test_what_came_meanwhile_is_read_once(tmp_path: Path, away: list[str]) -> None:
    with running_kafka(tmp_path / "broker") as kafka:
        for topic in (EAST, WEST):
            kafka.create(topic, 2)
        count = 0

        def run(*topics: str) -> str:
            """More records of both, of east from its second partition on later ones alone; then the pipeline."""
            nonlocal count
            for topic, first in ((EAST, 0), (WEST, 1000)):
                partition = 1 if count >= 20 and topic == EAST else 0
                kafka.produce(topic, _on(insert_events(topic, range(first + count, first + count + 10)), partition))
            count += 10
            done = run_together([_pipeline(tmp_path, kafka.bootstrap_servers, *topics)])
            assert done.returncode == 0, done.stderr
            return done.stderr

        run(EAST, WEST)
        assert f"no rule routes records of {EAST} (topic {EAST}) to it any more" in run(away[0])
        run(away[-1])
        told = run(EAST, WEST)
        assert "Tidemark catches it up beside the stream" in told
        assert _ids(tmp_path) == [*range(count), *range(1000, 1000 + count)], told
