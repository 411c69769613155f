"""A real SIGKILL of driver, JVM and workers at each step of a batch: after a restart nothing is lost or doubled."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from paimon_table.metadata.hash_index import read_hashes
from paimon_table.metadata.snapshot import CommitKind
from paimon_table.table import Table
from sinks.faults import CRASH_VARIABLE, POINTS
from tests.support.changelog import replay_strictly
from tests.support.events import History, write_dump
from tests.support.pipeline_run import run_once, write_pipeline

pytestmark = pytest.mark.crash
CHANGES = 1_500


@pytest.mark.parametrize("point", POINTS)
def test_killed_batch_is_neither_lost_nor_doubled(tmp_path: Path, point: str) -> None:
    histories = [History("orders", seed=1).extend(CHANGES), History("customers", seed=2).extend(CHANGES)]
    write_dump(tmp_path / "dumps", histories)
    file = write_pipeline(tmp_path, tmp_path / "dumps", max_records=900)

    killed = run_once(file, {CRASH_VARIABLE: f"{point}@2"})
    assert killed.returncode < 0, f"{point} was not reached:\n{killed.stderr}"
    restarted = run_once(file)
    assert restarted.returncode == 0, restarted.stderr

    _check(tmp_path, histories)


def test_a_batch_that_spark_took_for_done_is_compacted_after_the_restart(tmp_path: Path) -> None:
    """Killed after Spark has closed its last batch and before its compactions are published; no more events come."""
    histories = [History("orders", seed=3).extend(CHANGES)]
    write_dump(tmp_path / "dumps", histories)
    file = write_pipeline(tmp_path, tmp_path / "dumps", max_records=900)
    batches = -(-len(list(histories[0].lines())) // 900)

    killed = run_once(file, {CRASH_VARIABLE: f"after-append@{batches - 1}"})
    assert killed.returncode < 0, killed.stderr
    closed = tmp_path / "checkpoint" / "commits"
    assert not (closed / str(batches - 1)).exists()
    shutil.copy(closed / str(batches - 2), closed / str(batches - 1))
    table = Table.open(f"{tmp_path}/warehouse/lake.db/orders")
    replayed = replay_strictly([rows for _, rows in table.changes()], ["id"])
    assert replayed != {(key,): row for key, row in histories[0].rows.items()}

    restarted = run_once(file)
    assert restarted.returncode == 0, restarted.stderr
    _check(tmp_path, histories)
    newest = table.snapshots.latest()
    assert newest is not None
    assert (newest.commit_identifier, newest.commit_kind) == (batches - 1, CommitKind.COMPACT)


@pytest.mark.parametrize("point", ["between-data-files", "after-write", "before-append", "after-append"])
def test_killed_batch_leaves_no_key_in_two_dynamic_buckets(tmp_path: Path, point: str) -> None:
    """Killed around the commit that carries the index; the restart has other write tasks."""
    histories = [History("orders", seed=4).extend(CHANGES)]
    write_dump(tmp_path / "dumps", histories)
    buckets = "bucket: -1, dynamic-bucket.target-row-num: 25"
    file = write_pipeline(tmp_path, tmp_path / "dumps", max_records=500, buckets=buckets)

    killed = run_once(file, {CRASH_VARIABLE: f"{point}@2"})
    assert killed.returncode < 0, f"{point} was not reached:\n{killed.stderr}"
    write_pipeline(tmp_path, tmp_path / "dumps", max_records=500, master="local[3]", buckets=buckets)
    restarted = run_once(file)
    assert restarted.returncode == 0, restarted.stderr

    _check(tmp_path, histories)
    table = Table.open(f"{tmp_path}/warehouse/lake.db/orders")
    assert len(table.state().files) > 4
    indexed = [read_hashes(table.io, table.paths, entry.file) for entry in table.state().index]
    assert len(np.unique(np.concatenate(indexed))) == sum(map(len, indexed))


def _check(directory: Path, histories: list[History]) -> None:
    """Tables and changelogs equal the source, and no batch was committed twice."""
    for history in histories:
        table = Table.open(f"{directory}/warehouse/lake.db/{history.table}")
        assert {row["id"]: row for row in table.to_arrow().to_pylist()} == history.rows
        changes = [rows for _, rows in table.changes()]
        assert replay_strictly(changes, ["id"]) == {(key,): row for key, row in history.rows.items()}
        latest_id = table.snapshots.latest_id()
        assert latest_id is not None
        snapshots = [table.snapshots.read(i) for i in range(1, latest_id + 1)]
        identifiers = [(s.commit_identifier, s.commit_kind) for s in snapshots]
        assert len(identifiers) == len(set(identifiers)), f"a batch was committed twice: {identifiers}"
