"""A disk without room in the middle of what a command has Spark do: told in one line, and it goes on when there is."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest

from paimon_table import Table
from tests.support.command import TIDEMARK
from tests.support.events import History, write_dump
from tests.support.pipeline_run import run_once, write_pipeline
from tests.support.waiting import seconds

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RULE = "  - { match: { table: orders }, into: lake.orders, options: { bucket: 2, sequence.field: step } }\n"


def test_a_replay_without_room_for_local_files_is_told_and_goes_on_with_room(tmp_path: Path) -> None:
    history = History("orders", seed=1, keys=4_000).extend(6_000)
    write_dump(tmp_path / "dumps", [history])
    file = write_pipeline(tmp_path, tmp_path / "dumps", 5_000, rules=RULE)
    assert run_once(file).returncode == 0
    replay = [*TIDEMARK, "replay", str(file), "--table", "lake.orders", "--from", "earliest", "--into-place"]

    def without_room() -> None:
        """No file larger than 64 KB, which the rows of a slice are: the same to a writer as a full disk."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))

    failed = subprocess.run(replay, capture_output=True, text=True, check=False, preexec_fn=without_room)
    assert failed.returncode == 1, failed.stdout + failed.stderr
    last = failed.stderr.splitlines()[-1]
    assert "the files between tasks cannot be written to " in last and "free some space there" in last, failed.stderr
    assert "\tat " not in failed.stderr and "Traceback" not in failed.stderr and "spark ERROR" not in failed.stderr

    done = subprocess.run(replay, capture_output=True, text=True, check=False, timeout=seconds(120))
    assert done.returncode == 0, done.stderr
    assert "continuing replay " in done.stderr
    rows = Table.open(f"{tmp_path}/warehouse/lake.db/orders").to_arrow().to_pylist()
    assert {row["id"]: row for row in rows} == history.rows
