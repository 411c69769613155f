"""A rollback to a tag whose snapshot has expired leaves a gap below the newer snapshots until these are gone."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pytest

from paimon_table.errors import CommitConflict, CommitOutcomeUnknown
from paimon_table.history.rollback import plan_rollback_to_tag, roll_back
from paimon_table.history.tags import TagStore, create_tag
from paimon_table.maintenance.expiration import Surroundings, expire
from paimon_table.storage.file_io import FileIO, numbers_of
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO, SimulatedCrash
from paimon_table.surroundings import now_ms
from paimon_table.table import Table
from tests.support.interrupted_io import InterruptedIO
from tests.support.table_driver import TableDriver, new_table

OPTIONS = {
    "snapshot.num-retained.min": "3",
    "snapshot.num-retained.max": "3",
    "snapshot.time-retained": "1 ms",
    "num-sorted-run.compaction-trigger": "100",
}
COUNT = 8
LATER = range(101, 111)
"""Keys of more commits than the gap has snapshots."""


@pytest.fixture
def files(tmp_path: Path) -> Mapping[str, bytes]:
    """A table with a tag on snapshot 1, and snapshots 6 to 8."""
    io = MemoryFileIO()
    driver = TableDriver(new_table("/w/t", [("k", "INT"), ("v", "INT")], ["k"], (), OPTIONS, io), tmp_path)
    table = driver.table
    for key in range(1, COUNT + 1):
        driver.commit([["+I", key, key]])
        if key == 1:
            create_tag(
                TagStore(io, table.paths), "good", table.paths.snapshot_file(1), now=datetime.now, retained_ms=None
            )
    expire(table.context, Surroundings(clock_ms=lambda: now_ms() + 60_000))
    assert _ids(io) == [6, 7, 8]
    return dict(io.disk.files)


def _ids(io: FileIO) -> list[int]:
    return sorted(numbers_of(io.list_names("/w/t/snapshot"), "snapshot-"))


def _roll_back(io: FileIO) -> None:
    ctx = Table.open("/w/t", io=io).context
    roll_back(ctx, plan_rollback_to_tag(ctx, "good"))


def _keys(io: FileIO, tmp_path: Path) -> list[int]:
    return sorted(int(str(row[0])) for row in TableDriver(Table.open("/w/t", io=io), tmp_path).content())


def _goes_on(io: FileIO, tmp_path: Path) -> None:
    """What a writer commits later is in the table, and nothing of it has moved onto another line of snapshots."""
    before = _keys(io, tmp_path)
    writer = TableDriver(Table.open("/w/t", io=io), tmp_path, "later", after=max(_ids(io)))
    for key in LATER:
        writer.commit([["+I", key, key]])
    assert _keys(io, tmp_path) == sorted([*before, *LATER])


@pytest.mark.slow
def test_who_dies_leaves_a_table_that_was_rolled_back_less_far(files: Mapping[str, bytes], tmp_path: Path) -> None:
    alone = MemoryFileIO(MemoryDisk(dict(files)))
    _roll_back(alone)
    assert _keys(alone, tmp_path) == [1]
    for cut in alone.changes:
        disk = MemoryDisk(dict(files))
        with suppress(SimulatedCrash):
            _roll_back(MemoryFileIO(disk, crash_after=cut))
        left = disk.after_power_cut()
        io = MemoryFileIO(MemoryDisk(dict(left.files)))
        assert _keys(io, tmp_path) in ([1], *([*range(1, newest + 1)] for newest in (6, 7, 8))), cut
        _goes_on(io, tmp_path)

        again = MemoryFileIO(left)
        _roll_back(again)
        assert (_ids(again), _keys(again, tmp_path)) == ([1], [1]), cut


@pytest.mark.slow
def test_a_commit_at_the_same_moment_is_not_lost_where_the_rollback_gives_up(
    files: Mapping[str, bytes], tmp_path: Path
) -> None:
    alone = MemoryFileIO(MemoryDisk(dict(files)))
    _roll_back(alone)
    given_up = 0
    for at in range(alone.operations + 1):
        disk = MemoryDisk(dict(files))
        told: list[int] = []

        def other(disk: MemoryDisk = disk, told: list[int] = told) -> None:
            with suppress(CommitConflict, CommitOutcomeUnknown):
                driver = TableDriver(Table.open("/w/t", io=MemoryFileIO(disk)), tmp_path, "x", after=COUNT)
                driver.commit([["+I", 50, 50]])
                told.append(50)

        try:
            _roll_back(InterruptedIO(disk, at=at, other=other))
        except CommitConflict:
            given_up += 1
            io = MemoryFileIO(disk)
            assert {*told} <= {*_keys(io, tmp_path)}, at
            _goes_on(io, tmp_path)
    assert given_up > 0
