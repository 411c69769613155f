"""Pipelines whose tables keep nothing but the newest snapshot, killed with SIGKILL: nothing is lost or doubled."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.table import Table
from sinks.faults import CRASH_VARIABLE
from tests.support.events import History, write_dump
from tests.support.pipeline_run import run_once, write_pipeline

pytestmark = pytest.mark.crash
NEWEST_ALONE = "bucket: 2, snapshot.num-retained.min: 1, snapshot.num-retained.max: 1, snapshot.time-retained: 0 ms"


def test_a_table_that_keeps_only_its_newest_snapshot_survives_kills(tmp_path: Path) -> None:
    histories = [History("orders", seed=1).extend(1_500), History("customers", seed=2).extend(1_500)]
    write_dump(tmp_path / "dumps", histories)
    file = write_pipeline(tmp_path, tmp_path / "dumps", max_records=500, buckets=NEWEST_ALONE)

    for point in ("after-append@2", "after-compact@4"):
        killed = run_once(file, {CRASH_VARIABLE: point})
        assert killed.returncode < 0, f"{point} was not reached:\n{killed.stderr}"
    done = run_once(file)
    assert done.returncode == 0, done.stderr
    assert "could not remove" not in done.stderr

    for history in histories:
        table = Table.open(f"{tmp_path}/warehouse/lake.db/{history.table}")
        assert {row["id"]: row for row in table.to_arrow().to_pylist()} == history.rows
        newest = table.snapshots.latest_id() or 0
        assert newest > 5
        assert table.snapshots.earliest_id() == newest
        live = [file for files in table.state().files.values() for file in files]
        stored = list(Path(table.paths.root).glob("bucket-*/*"))
        assert len(stored) <= len(live) + 20, "files of two batches that were killed, and of the newest snapshot"
        assert not list(Path(table.paths.root).glob("tidemark/removals/*"))
