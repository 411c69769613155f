"""Tables of a pipeline that reads Kafka: paused, caught up from their own offsets, and filled when they are new."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.stack.kafka import running_kafka
from tests.stack.topics import TopicRecord, Topics
from tests.support.command import tidemark_process
from tests.support.kafka_pipelines import insert_events, row_ids, table_names, write_kafka_pipeline
from tests.support.pipeline_run import run_once, running, wait_until
from tests.support.waiting import seconds

pytestmark = [pytest.mark.stack, pytest.mark.slow]
REFUSED, FINE, NEW = "k.refused", "k.fine", "k.new"
EMPTIED = "e.emptied"


def _truncate(topic: str) -> TopicRecord:
    value = {"before": None, "after": None, "op": "t", "source": {"table": topic}}
    return TopicRecord(b"{}", json.dumps(value).encode(), partition=0)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    with running_kafka(tmp_path_factory.mktemp("paused") / "broker") as topics:
        yield topics


def _pipeline(
    root: Path, servers: str, *, prefix: str = "k", skips_truncates: bool = False, fills: bool = False
) -> Path:
    file = write_kafka_pipeline(root, servers, {"include": [rf"{prefix}\..*"]}, max_records=7)
    text = file.read_text()
    rules = "tables:\n" + "".join(
        f"  - {{ match: {{ topic: '{topic}' }}, into: 'lake.{{topic}}' }}\n" for topic in (REFUSED, FINE, EMPTIED)
    )
    if fills:
        rules += f"  - {{ match: {{ topic: '{NEW}' }}, into: lake.new, backfill: true }}\n"
    text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("otherwise:")) + rules
    if skips_truncates:
        text = text.replace("defaults: {", "defaults: { schema_changes: { truncate: skip },")
    file.write_text(text)
    return file


def test_tables_fall_behind_and_come_back_alone(tmp_path: Path, broker: Topics) -> None:
    log = tmp_path / "messages"
    log.touch()
    for topic in (REFUSED, FINE, NEW):
        broker.create(topic)
        broker.produce(topic, insert_events(topic, range(10)))
    file = _pipeline(tmp_path, broker.bootstrap_servers)

    with running(file, log) as process:
        wait_until(lambda: {REFUSED, FINE} <= table_names(tmp_path), 120, "the tables")
        # In a batch with the truncate these would wait with it.
        wait_until(lambda: row_ids(tmp_path, REFUSED) == [*range(10)], 60, "the first rows")
        broker.produce(REFUSED, [_truncate(REFUSED), *insert_events(REFUSED, range(10, 30))])
        wait_until(lambda: f"table lake.{REFUSED} is paused from batch" in log.read_text(), 60, "the pause")
        broker.produce(FINE, insert_events(FINE, range(10, 20)))
        wait_until(lambda: row_ids(tmp_path, FINE) == [*range(20)], 60, "the rows of the other table")
        assert "is catching up" in _resume(file)
        wait_until(lambda: f"table lake.{REFUSED} stays paused" in log.read_text(), 60, "the second refusal")
        process.terminate()
        assert process.wait(seconds(60)) == 0
    assert row_ids(tmp_path, REFUSED) == [*range(10)]
    assert table_names(tmp_path) == {REFUSED, FINE}

    mended = _pipeline(tmp_path, broker.bootstrap_servers, skips_truncates=True, fills=True)
    done = run_once(mended)
    assert done.returncode == 0, done.stderr
    assert row_ids(tmp_path, REFUSED) == [*range(30)]
    assert row_ids(tmp_path, "new") == [*range(10)]

    broker.produce(REFUSED, [_truncate(REFUSED), *insert_events(REFUSED, range(30, 40))])
    broker.produce(NEW, insert_events(NEW, range(10, 15)))
    refused = run_once(_pipeline(tmp_path, broker.bootstrap_servers, fills=True))
    assert refused.returncode == 1, refused.stderr
    assert row_ids(tmp_path, "new") == [*range(15)]
    broker.delete_records(REFUSED, 36)
    lost = run_once(mended)
    assert lost.returncode == 1, lost.stderr
    assert f"topic {REFUSED} partition 0: offsets 31 to 35 are gone (retention, or deleted records)" in lost.stderr
    assert row_ids(tmp_path, REFUSED) == [*range(30)]


def test_the_command_that_a_truncate_asks_for_leaves_what_the_source_has(tmp_path: Path, broker: Topics) -> None:
    broker.create(EMPTIED, 2)

    def produce(first: int) -> None:
        for partition in (0, 1):
            ids = range(first + partition * 10, first + partition * 10 + 5)
            broker.produce(EMPTIED, [replace(record, partition=partition) for record in insert_events(EMPTIED, ids)])

    produce(0)
    broker.produce(EMPTIED, [replace(_truncate(EMPTIED), partition=1)])
    produce(20)
    paused = run_once(_pipeline(tmp_path, broker.bootstrap_servers, prefix="e"))
    (command,) = {*re.findall(r"tidemark replay FILE (.*?--allow-missing)", paused.stderr)}
    mended = _pipeline(tmp_path, broker.bootstrap_servers, prefix="e", skips_truncates=True)
    done = run_once(mended)
    assert done.returncode == 0, done.stderr
    assert {0, 10} < {*row_ids(tmp_path, EMPTIED)}

    replayed = tidemark_process("replay", mended, *shlex.split(command))

    assert replayed.returncode == 0, replayed.stderr
    assert row_ids(tmp_path, EMPTIED) == [*range(20, 25), *range(30, 35)]


def _resume(file: Path) -> str:
    done = tidemark_process("resume", file, "--table", f"lake.{REFUSED}")
    assert done.returncode == 0, done.stderr
    return done.stdout
