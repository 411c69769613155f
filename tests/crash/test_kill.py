"""A real SIGKILL of driver, JVM and workers at each step of a batch: after a restart nothing is lost or doubled."""

from __future__ import annotations

import json
import shutil
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np
import pytest

from paimon_table.maintenance.job import Job
from paimon_table.maintenance.postponed import compact_postponed
from paimon_table.metadata.hash_index import read_hashes
from paimon_table.metadata.snapshot import CommitKind
from paimon_table.table import Table
from paimon_table.write.bucket_writer import WriterEnvironment
from sinks.faults import CRASH_VARIABLE, POINTS
from tests.support.changelog import replay_strictly
from tests.support.events import History, write_dump
from tests.support.pipeline_run import run_once, write_pipeline

pytestmark = pytest.mark.crash
CHANGES = 1_500


@pytest.mark.parametrize("points", [POINTS[::2], POINTS[1::2]], ids=", ".join)
def test_killed_batches_are_neither_lost_nor_doubled(tmp_path: Path, points: tuple[str, ...]) -> None:
    """Each start ends the batch that was killed and is killed in the next one, at another step."""
    histories = [History("orders", seed=1).extend(CHANGES), History("customers", seed=2).extend(CHANGES)]
    write_dump(tmp_path / "dumps", histories)
    file = write_pipeline(tmp_path, tmp_path / "dumps", max_records=500)

    for batch, point in enumerate(points, 2):
        _run_until_killed(file, point, batch)
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


def test_killed_batches_leave_no_key_in_two_dynamic_buckets(tmp_path: Path) -> None:
    """Killed around the commits that carry the index; each start has another number of write tasks."""
    histories = [History("orders", seed=4).extend(CHANGES)]
    write_dump(tmp_path / "dumps", histories)
    buckets = "bucket: -1, dynamic-bucket.target-row-num: 25"

    def file(cores: int) -> Path:
        return write_pipeline(tmp_path, tmp_path / "dumps", 250, master=f"local[{cores}]", buckets=buckets)

    for batch, point in enumerate(("between-data-files", "after-write", "before-append", "after-append"), 1):
        _run_until_killed(file(2 + batch % 2), point, batch)
    restarted = run_once(file(2))
    assert restarted.returncode == 0, restarted.stderr

    _check(tmp_path, histories)
    table = Table.open(f"{tmp_path}/warehouse/lake.db/orders")
    assert len(table.state().files) > 4
    indexed = [read_hashes(table.io, table.paths, entry.file) for entry in table.state().index]
    assert len(np.unique(np.concatenate(indexed))) == sum(map(len, indexed))


RULES = """\
  - match: { table: moves }
    into: lake.moves
    partition_by: [region]
    options: { bucket: -1, dynamic-bucket.initial-buckets: 2, changelog-producer: lookup }
  - { match: { table: waits }, into: lake.waits, options: { bucket: -2 } }
  - match: { table: log }
    into: lake.log
    mode: append
    on_change: log
    options: { bucket: -1, compaction.min.file-num: 2 }
"""
"""Rows that move between partitions, rows that wait for buckets, and all events in a table without key."""


def test_killed_batches_of_other_kinds_of_tables_are_neither_lost_nor_doubled(tmp_path: Path) -> None:
    """Each restart has no index of keys left; the last kill falls between compactions of its batch."""
    histories = [History(name, seed=5, keys=60, regions=3).extend(250) for name in ("moves", "waits", "log")]
    mixed = chain.from_iterable(zip_longest(*(history.lines() for history in histories)))
    (tmp_path / "dumps").mkdir()
    (tmp_path / "dumps" / "shop.jsonl").write_text("".join(f"{line}\n" for line in mixed if line is not None))
    file = write_pipeline(tmp_path, tmp_path / "dumps", 200, producer="none", rules=RULES)

    for batch, point in enumerate(("between-data-files", "after-append", "between-compactions"), 1):
        _run_until_killed(file, point, batch)
    restarted = run_once(file)
    assert restarted.returncode == 0, restarted.stderr

    moves, waits, log = (Table.open(f"{tmp_path}/warehouse/lake.db/{name}") for name in ("moves", "waits", "log"))
    compact_postponed(waits, Job(WriterEnvironment(str(tmp_path / "job"))), lambda _: True)
    for table, history in ((moves, histories[0]), (waits.refreshed(), histories[1])):
        rows = table.to_arrow().to_pylist()
        assert {row["id"]: row for row in rows} == history.rows
        assert len(rows) == len(history.rows), "a key is there twice"
    followed = replay_strictly((changes for _, changes in moves.changes()), ["id"])
    assert followed == {(key,): row for key, row in histories[0].rows.items()}
    stored = [(row["event_partition"], row["event_offset"], row["event_kind"]) for row in log.to_arrow().to_pylist()]
    assert len(stored) == len(set(stored)), "an event is there twice"
    events = {(line["partition"], line["offset"]) for line in map(json.loads, histories[2].lines()) if line["payload"]}
    assert {(partition, offset) for partition, offset, _ in stored} == events


def _run_until_killed(file: Path, point: str, batch: int) -> None:
    killed = run_once(file, {CRASH_VARIABLE: f"{point}@{batch}"})
    assert killed.returncode < 0, f"{point} of batch {batch} was not reached:\n{killed.stderr}"


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
