"""A rollback and a commit of one table at once, one of them within any operation of the other: in some order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from paimon_table.errors import CommitConflict
from paimon_table.history.rollback import plan_rollback, roll_back
from paimon_table.storage.file_io import numbers_of
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO
from paimon_table.table import Table
from tests.support.interrupted_io import InterruptedIO
from tests.support.table_driver import TableDriver, new_table

ROOT = "/w/t"
COMMITS = 4
NEW = 9
"""The key of the row that is committed beside the rollback."""

Work = Callable[[MemoryFileIO, Path], bool]


def committed(io: MemoryFileIO, directory: Path) -> bool:
    """Whether the commit was told to be in the table."""
    try:
        TableDriver(Table.open(ROOT, io=io), directory, "another").commit([["+I", NEW, NEW]])
    except CommitConflict:
        return False
    return True


def rolled_back(io: MemoryFileIO, _: Path) -> bool:
    """Whether the last snapshot of those that were there was told to be gone."""
    ctx = Table.open(ROOT, io=io).context
    try:
        roll_back(ctx, plan_rollback(ctx, COMMITS - 1))
    except CommitConflict:
        return False
    return True


def grown(tmp_path: Path) -> dict[str, bytes]:
    """The files of a table with a row from each of some commits."""
    io = MemoryFileIO()
    driver = TableDriver(
        new_table(ROOT, [("id", "INT"), ("v", "INT")], ["id"], (), {"num-sorted-run.compaction-trigger": "100"}, io),
        tmp_path,
    )
    for number in range(1, COMMITS + 1):
        driver.commit([["+I", number, number]])
    return dict(io.disk.files)


@pytest.mark.slow
@pytest.mark.parametrize("is_commit_within", [True, False], ids=["commit within", "rollback within"])
def test_one_comes_after_the_other(is_commit_within: bool, tmp_path: Path) -> None:
    files = grown(tmp_path)
    work, other = (rolled_back, committed) if is_commit_within else (committed, rolled_back)
    alone = MemoryFileIO(MemoryDisk(dict(files)))
    assert work(alone, tmp_path)

    told = set()
    for at in range(alone.operations):
        disk, of_other = MemoryDisk(dict(files)), list[bool]()

        def others(disk: MemoryDisk = disk, of_other: list[bool] = of_other) -> None:
            of_other.append(other(MemoryFileIO(disk), tmp_path))

        of_work = work(InterruptedIO(disk, at=at, other=others), tmp_path)
        is_in, is_gone = (of_other[0], of_work) if is_commit_within else (of_work, of_other[0])
        told.add((is_in, is_gone))

        table = Table.open(ROOT, io=MemoryFileIO(disk))
        ids = numbers_of(table.io.list_names(table.paths.snapshot_dir), "snapshot-")
        assert sorted(ids) == list(range(1, max(ids) + 1)), f"at {at}"
        keys = {row[0] for row in TableDriver(table, tmp_path).content()}
        assert not (is_gone and COMMITS in keys), f"at {at}"
        assert is_in or NEW not in keys, f"at {at}"
        assert is_gone or not is_in or NEW in keys, f"at {at}"
        assert keys >= {*range(1, COMMITS)}, f"at {at}"
    assert (True, True) in told and (not is_commit_within or (True, False) in told)
