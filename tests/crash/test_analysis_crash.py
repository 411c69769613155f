"""ANALYZE with a power cut after each storage operation, and the hints of the first commit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paimon_table.maintenance.analysis import analyze
from paimon_table.maintenance.job import Job
from paimon_table.metadata.snapshot import CommitKind
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO, SimulatedCrash
from paimon_table.table import Table
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.support.table_driver import TableDriver, new_table

ROOT = "/w/t"
ROWS = [[1, 10], [2, 20]]

pytestmark = pytest.mark.crash


def table_on(disk: MemoryDisk, crash_after: int | None = None) -> Table:
    return Table.open(ROOT, io=MemoryFileIO(disk, crash_after))


def run(table: Table, tmp_path: Path) -> None:
    assert analyze(table, Job(WriterEnvironment(str(tmp_path / "job")))) is not None


def changes(table: Table) -> list[int]:
    assert isinstance(table.io, MemoryFileIO)
    return table.io.changes


def counted_rows(table: Table) -> int | None:
    """The rows that the statistics of the newest snapshot tell, which is the same as what readers see."""
    newest = table.snapshots.latest()
    assert newest is not None
    if newest.statistics is None:
        return None
    return int(json.loads(table.io.read(table.paths.statistics_file(newest.statistics)))["mergedRecordCount"])


def test_statistics_are_whole_or_not_there(tmp_path: Path) -> None:
    io = MemoryFileIO()
    TableDriver(new_table(ROOT, [("k", "INT"), ("v", "INT")], ["k"], io=io), tmp_path / "l").commit(
        [["+I", *row] for row in ROWS]
    )
    disk = io.disk.after_power_cut()

    def copied() -> MemoryDisk:
        return MemoryDisk(dict(disk.files), modified_ms=dict(disk.modified_ms))

    whole = table_on(copied())
    run(whole, tmp_path)
    found = set()
    for crash_after in changes(whole):
        on = copied()
        with pytest.raises(SimulatedCrash):
            run(table_on(on, crash_after), tmp_path)
        left = on.after_power_cut()
        found.add(counted_rows(table_on(left)))
        assert TableDriver(table_on(left), tmp_path).content() == ROWS
        run(table_on(left), tmp_path)
        again = table_on(left)
        newest = again.snapshots.latest()
        assert newest is not None and newest.commit_kind is CommitKind.ANALYZE
        assert (counted_rows(again), TableDriver(again, tmp_path).content()) == (2, ROWS)
    assert found == {None, 2}


def test_hints_of_the_first_commit_are_right_or_not_there(tmp_path: Path) -> None:
    io = MemoryFileIO()
    new_table(ROOT, [("k", "INT"), ("v", "INT")], ["k"], io=io)
    disk = io.disk.after_power_cut()
    hints = (f"{ROOT}/snapshot/EARLIEST", f"{ROOT}/snapshot/LATEST")

    def commit(on: MemoryDisk, crash_after: int | None = None) -> list[int]:
        driver = TableDriver(table_on(on, crash_after), tmp_path / "l")
        driver.commit([["+I", *row] for row in ROWS])
        return changes(driver.table)

    whole = MemoryDisk(dict(disk.files))
    cuts = commit(whole)
    assert [whole.files[path] for path in hints] == [b"1", b"1"]
    for crash_after in cuts:
        on = MemoryDisk(dict(disk.files))
        with pytest.raises(SimulatedCrash):
            commit(on, crash_after)
        assert {on.files[path] for path in hints if path in on.files} <= {b"1"}
        after = table_on(on.after_power_cut())
        assert after.snapshots.earliest_id() == after.snapshots.latest_id()
