"""A table that cannot be written, as a user sees it: the others go on, requests and restarts catch it up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from paimon_table.table import Table
from pipelines.checkpoint.book import FILE
from sinks.faults import CRASH_VARIABLE
from tests.support.changelog import replay_strictly
from tests.support.command import tidemark
from tests.support.events import History, write_dump
from tests.support.pipeline_run import run_once, running, wait_until, write_pipeline
from tests.support.waiting import seconds

CHANGES = 600


def _truncated(history: History, at: int) -> History:
    """The history with a TRUNCATE somewhere, which changes nothing where it is skipped."""
    source = {"db": "shop", "schema": "public", "table": history.table}
    history.events.insert(at, (0, {"id": 0}, {"before": None, "after": None, "source": source, "op": "t"}))
    return history


def _skipping_truncates(file: Path) -> None:
    text = file.read_text()
    file.write_text(text.replace("defaults:", "defaults:\n  schema_changes: { truncate: skip }"))


def _check(root: Path, histories: list[History]) -> None:
    for history in histories:
        table = Table.open(f"{root}/warehouse/lake.db/{history.table}")
        assert {row["id"]: row for row in table.to_arrow().to_pylist()} == history.rows
        changes = [rows for _, rows in table.changes()]
        assert replay_strictly(changes, ["id"]) == {(key,): row for key, row in history.rows.items()}


@pytest.mark.crash
@pytest.mark.slow
def test_a_paused_table_is_named_and_a_killed_catching_up_goes_on(tmp_path: Path) -> None:
    """Beside a table that was paused before the first start, and gets nothing until it is resumed."""
    histories = [
        _truncated(History("orders", seed=1).extend(CHANGES), 400),
        History("customers", seed=2).extend(CHANGES),
        History("asked", seed=3).extend(200),
    ]
    write_dump(tmp_path / "dumps", histories)
    rule = "  - match: { table: asked }\n    into: lake.asked\n"
    file = write_pipeline(tmp_path, tmp_path / "dumps", max_records=250, rules=rule)
    assert tidemark("pause", file, "--table", "lake.asked").returncode == 0

    refused = run_once(file)
    assert "table lake.asked is paused from batch 0 on: paused by " in refused.stderr
    assert not (tmp_path / "warehouse/lake.db/asked").exists()
    assert refused.returncode == 1
    assert "pipeline shop: table lake.orders is paused, and all others are up to date" in refused.stderr
    assert "; without lake.asked, lake.orders, which are behind" in refused.stderr
    assert "table lake.orders is paused: " in refused.stdout
    _check(tmp_path, histories[1:2])

    assert tidemark("resume", file, "--table", "lake.asked").returncode == 0
    _skipping_truncates(file)
    killed = run_once(file, {CRASH_VARIABLE: "slice-done@0"})
    assert killed.returncode < 0, killed.stderr
    finished = run_once(file)
    assert finished.returncode == 0, finished.stderr
    assert "table lake.orders has caught up" in finished.stderr
    _check(tmp_path, histories)


@pytest.mark.slow
def test_a_table_is_paused_and_resumed_by_hand_while_the_pipeline_runs(tmp_path: Path) -> None:
    histories = [History("orders", seed=3).extend(100), History("customers", seed=4).extend(100)]
    write_dump(tmp_path / "dumps", histories)
    file, log = write_pipeline(tmp_path, tmp_path / "dumps", max_records=500), tmp_path / "log"

    with running(file, log) as process:
        wait_until(lambda: "lake.orders" in log.read_text() and "batch 0:" in log.read_text(), 90, "the first batch")
        assert "is paused at its position" in _asked(file, "pause", "--reason", "rebuilding the mart")
        more = [history.extend(100) for history in histories]
        for history in more:
            _append(tmp_path / "dumps", history)
        wait_until(lambda: "; without lake.orders, which is behind" in log.read_text(), 60, "a batch without the table")
        assert "is catching up" in _asked(file, "resume")
        wait_until(lambda: "table lake.orders has caught up" in log.read_text(), 60, "catching up")
        process.terminate()
        assert process.wait(seconds(60)) == 0

    assert "no table 'lake.order'; did you mean lake.orders?" not in log.read_text()
    _check(tmp_path, histories)
    orders = json.loads((tmp_path / "checkpoint" / FILE).read_text())["tables"]["lake.orders"]
    assert orders["pause"] is None and orders["paused_ms"] > 0


def _append(dumps: Path, history: History) -> None:
    """What the history has in addition."""
    path = dumps / f"{history.topic}.jsonl"
    known = len(path.read_text().splitlines())
    with path.open("a") as file:
        file.writelines(line + "\n" for line in list(history.lines())[known:])


def _asked(file: Path, command: str, *arguments: str) -> str:
    tidemark = Path(sys.executable).with_name("tidemark")
    line = [str(tidemark), command, str(file), "--table", "lake.orders", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, timeout=seconds(90), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
