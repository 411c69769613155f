"""A real SIGKILL of driver, JVM and workers at each step of a batch: after a restart nothing is lost or doubled.

One pipeline with a table of each kind, for a start of Spark costs more than all its tables: whatever a kill leaves of a
batch, each kind of table has to end it. At the last step all tables have their rows, and the batch is not closed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from operator import itemgetter
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
from tests.support.events import History
from tests.support.pipeline_run import run_once, write_pipeline

pytestmark = pytest.mark.crash

RULES = """\
  - { match: { table: orders }, into: lake.orders, options: { changelog-producer: lookup } }
  - match: { table: spread }
    into: lake.spread
    options: { bucket: -1, dynamic-bucket.target-row-num: 25, changelog-producer: lookup }
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
  - match: { table: brief }
    into: lake.brief
    options:
      changelog-producer: lookup
      snapshot.num-retained.min: 1
      snapshot.num-retained.max: 1
      snapshot.time-retained: 0 ms
"""
"""Fixed buckets, buckets that grow in number, rows that move between partitions, rows that wait for buckets, all events
in a table without key, and a table that keeps nothing but its newest snapshot."""

MOST_RECORDS = 250
FIRST_KILLED = 2


def test_killed_batches_are_neither_lost_nor_doubled(tmp_path: Path) -> None:
    """Each start ends the batch that was killed and is killed in the next one, at another step.

    It has another number of write tasks, and no index of keys left. The last batch is one of orders alone. It is killed
    before its compactions are published, Spark takes it for done, and no more events come.
    """
    histories = {name: History(name, seed=seed).extend(400) for seed, name in enumerate(("orders", "spread"), 1)}
    histories |= {n: History(n, seed=5, keys=60, regions=3).extend(400) for n in ("moves", "waits", "log", "brief")}
    lines = _mixed([*histories.values()])
    known = len([*histories["orders"].lines()])
    lines += [*histories["orders"].extend(MOST_RECORDS + 50).lines()][known:]
    (tmp_path / "dumps").mkdir()
    (tmp_path / "dumps" / "shop.jsonl").write_text("".join(f"{line}\n" for line in lines))
    last = -(-len(lines) // MOST_RECORDS) - 1
    assert last >= FIRST_KILLED + len(POINTS)
    tables = {name: f"{tmp_path}/warehouse/lake.db/{name}" for name in histories}

    def file(cores: int) -> Path:
        master = f"local[{cores}]"
        return write_pipeline(tmp_path, tmp_path / "dumps", MOST_RECORDS, "none", master, rules=RULES)

    for batch, point in enumerate(POINTS, FIRST_KILLED):
        _run_until_killed(file(2 + batch % 2), point, batch)
    _run_until_killed(file(2), "after-append", last)
    _let_spark_take_for_done(tmp_path, last)
    assert _followed(Table.open(tables["orders"])) != _keyed(histories["orders"])
    restarted = run_once(file(2))
    assert restarted.returncode == 0, restarted.stderr
    assert "could not remove" not in restarted.stderr

    for name in ("orders", "spread", "moves"):
        _check(Table.open(tables[name]), histories[name])
    newest = Table.open(tables["orders"]).snapshots.latest()
    assert newest is not None
    assert (newest.commit_identifier, newest.commit_kind) == (last, CommitKind.COMPACT)
    _check_index(Table.open(tables["spread"]))
    waits = Table.open(tables["waits"])
    compact_postponed(waits, Job(WriterEnvironment(str(tmp_path / "job"))), lambda _: True)
    _check_rows(waits.refreshed(), histories["waits"])
    _check_log(Table.open(tables["log"]), histories["log"])
    _check_rows(Table.open(tables["brief"]), histories["brief"])
    _check_kept(Table.open(tables["brief"]))


def _mixed(histories: Sequence[History]) -> list[str]:
    """The lines of all, so that each batch has some of each."""
    placed: list[tuple[float, str]] = []
    for history in histories:
        lines = [*history.lines()]
        placed += [(number / len(lines), line) for number, line in enumerate(lines)]
    return [line for _, line in sorted(placed, key=itemgetter(0))]


def _run_until_killed(file: Path, point: str, batch: int) -> None:
    killed = run_once(file, {CRASH_VARIABLE: f"{point}@{batch}"})
    assert killed.returncode < 0, f"{point} of batch {batch} was not reached:\n{killed.stderr}"


def _let_spark_take_for_done(root: Path, batch: int) -> None:
    """Close a batch whose rows are in its tables."""
    closed = root / "checkpoint" / "commits"
    assert not (closed / str(batch)).exists()
    shutil.copy(closed / str(batch - 1), closed / str(batch))


def _keyed(history: History) -> dict[tuple[int], dict[str, object]]:
    return {(key,): row for key, row in history.rows.items()}


def _followed(table: Table) -> object:
    """What the changelog leads to."""
    return replay_strictly((rows for _, rows in table.changes()), ["id"])


def _check(table: Table, history: History) -> None:
    """Table and changelog equal the source, and no batch was committed twice."""
    _check_rows(table, history)
    assert _followed(table) == _keyed(history)
    snapshots = [*table.snapshots.newest_first()]
    identifiers = [(s.commit_identifier, s.commit_kind) for s in snapshots]
    assert len(identifiers) == len(set(identifiers)), f"a batch was committed twice: {identifiers}"


def _check_rows(table: Table, history: History) -> None:
    rows = table.to_arrow().to_pylist()
    assert {row["id"]: row for row in rows} == history.rows
    assert len(rows) == len(history.rows), "a key is there twice"


def _check_index(table: Table) -> None:
    """No key is in two dynamic buckets."""
    assert len(table.state().files) > 4
    indexed = [read_hashes(table.io, table.paths, entry.file) for entry in table.state().index]
    assert len(np.unique(np.concatenate(indexed))) == sum(map(len, indexed))


def _check_log(table: Table, history: History) -> None:
    stored = [(row["event_partition"], row["event_offset"], row["event_kind"]) for row in table.to_arrow().to_pylist()]
    assert len(stored) == len(set(stored)), "an event is there twice"
    events = {(line["partition"], line["offset"]) for line in map(json.loads, history.lines()) if line["payload"]}
    assert {(partition, offset) for partition, offset, _ in stored} == events


def _check_kept(table: Table) -> None:
    """Few snapshots are there: a table rests between two expiries, and processes killed meanwhile leave some."""
    newest, earliest = table.snapshots.latest_id() or 0, table.snapshots.earliest_id() or 0
    assert newest > 10
    assert newest - earliest < 5
    live = [file for files in table.state().files.values() for file in files]
    stored = list(Path(table.paths.root).glob("bucket-*/*"))
    kept = 3 * (len(POINTS) + 1 + newest - earliest)  # rows, compaction and changelog of a killed batch or a snapshot
    assert len(stored) <= len(live) + kept, "files of the batches that were killed, and of the snapshots"
    assert not list(Path(table.paths.root).glob("tidemark/removals/*"))
