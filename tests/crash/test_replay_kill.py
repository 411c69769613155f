"""A real SIGKILL within the slices of a replay, while its pipeline goes on and changes of the same keys arrive."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from paimon_table import Table
from sinks.faults import CRASH_VARIABLE
from tests.integration.orders_pipeline import running, written
from tests.stack.topics import TopicRecord, Topics
from tests.support.changelog import replay_strictly
from tests.support.command import TIDEMARK, tidemark_process
from tests.support.pipeline_run import rows_so_far, wait_until
from tests.support.waiting import seconds

pytestmark = [pytest.mark.stack, pytest.mark.crash]

READING = ": reads 1 topic"
"""What a start says once it has its stream."""


@dataclass
class Source:
    """A table whose rows change and go, and the topic of its changes; one thread feeds it."""

    topics: Topics
    topic: str
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    number: int = 0
    draw: random.Random = field(default_factory=lambda: random.Random(5))

    def change(self, count: int) -> None:
        self.topics.produce(self.topic, [self._changed(self.draw.randrange(500)) for _ in range(count)])

    def _changed(self, key: int) -> TopicRecord:
        before, after = self.rows.get(key), None
        self.number += 1
        if before is None or self.draw.random() > 0.15:
            self.rows[key] = after = {"id": key, "day": key % 4, "n": self.number}
        else:
            del self.rows[key]
            before = {**before, "n": self.number}  # the order of a delete is that of its row
        op = "d" if after is None else "c" if before is None else "u"
        source = {"db": "shop", "schema": "public", "table": "orders"}
        value = {"before": before, "after": after, "op": op, "source": source}
        name = json.dumps({"id": key, "day": key % 4}).encode()
        return TopicRecord(name, json.dumps(value).encode(), partition=key % 2)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Changes go on for the length of the block."""
        done = threading.Event()

        def work() -> None:
            for _ in range(40):
                if done.wait(0.3):
                    break
                self.change(6)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def test_slices_that_are_killed_beside_their_stream_come_in_once(tmp_path: Path, kafka: Topics) -> None:
    """The stream is beyond the numbers of the slices, so that a point of a batch is one of a slice.

    Kills at all other steps: tests/pipelines/replay/test_replay_job.py.
    """
    topic = "killed.public.orders"
    kafka.create(topic, 2)
    source = Source(kafka, topic)
    options = "sequence.field: n, changelog-producer: lookup"
    file = written(tmp_path, kafka.bootstrap_servers, topic, options=options, number_type="BIGINT", most_records=400)
    log, root = tmp_path / "log", f"{tmp_path}/warehouse/lake.db/orders"
    words = ("replay", str(file), "--table", "lake.orders", "--from", "earliest", "--into-place")

    def rows() -> dict[int, dict[str, Any]]:
        found = rows_so_far(root)
        assert len({row["id"] for row in found}) == len(found), "a key is there twice"
        return {row["id"]: row for row in found}

    source.change(2_400)
    with running(file, log):
        wait_until(lambda: rows() == source.rows, 120, "the first rows")
    with _streaming(file, log, **{CRASH_VARIABLE: "after-append@2"}) as process, source.changing():
        command = subprocess.Popen([*TIDEMARK, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert process.wait(seconds(120)) == -signal.SIGKILL, log.read_text()
        finally:
            command.kill()
            command.wait()
    with _streaming(file, log):
        with source.changing():
            _kill_command(words, tmp_path)
            done = tidemark_process(*words)
        assert done.returncode == 0, done.stdout + done.stderr + log.read_text()
        assert "continuing replay" in done.stderr
        wait_until(lambda: rows() == source.rows, 60, "all rows")
        # They show with the append, their changelog with the compaction behind it.
        wait_until(lambda: _told(root) == source.rows, 60, "the changelog of all rows")
    table = Table.open(root)
    commits = [s for s in table.snapshots.newest_first() if s.commit_user.startswith("replay-")]
    # A slice that runs again after a kill may be longer than before, and goes on behind what is there.
    names = [(s.commit_identifier, s.commit_kind, s.properties["tidemark.replayed"]) for s in commits]
    assert len(names) == len(set(names)), "a slice was committed twice"


def _told(root: str) -> dict[int, dict[str, Any]]:
    """The rows that the changelog leads to."""
    changes = replay_strictly((changes for _, changes in Table.open(root).changes()), ["id", "day"])
    return {row["id"]: row for row in changes.values()}


@contextmanager
def _streaming(file: Path, log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """The pipeline, once it has its stream: it holds the checkpoint then, and not a command that comes first."""
    seen = log.read_text().count(READING)
    with running(file, log, **environment) as process:
        wait_until(lambda: log.read_text().count(READING) > seen, 120, "the start of the stream")
        yield process


def _kill_command(words: tuple[str, ...], root: Path) -> None:
    """Kill the command while the pipeline does its slice."""
    requests = root / "checkpoint" / "tidemark" / "requests"
    before = set(requests.iterdir())
    command = subprocess.Popen([*TIDEMARK, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: set(requests.iterdir()) > before, 60, "the request for a slice")
    os.kill(command.pid, signal.SIGKILL)
    command.wait()
