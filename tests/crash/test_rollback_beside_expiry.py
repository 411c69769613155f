"""A rollback and an expiry of one table at once, one of them within any operation of the other: a table stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_table.errors import CommitConflict, ConfigError
from paimon_table.history.rollback import plan_rollback, roll_back
from paimon_table.maintenance.expiration import Surroundings, expire
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.option_parsing import parse_options
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO
from paimon_table.table import Table
from tests.support.interrupted_io import InterruptedIO
from tests.support.table_driver import TableDriver, new_table

ROOT = "/w/t"
NEWEST_ALONE = {"snapshot.num-retained.min": "1", "snapshot.time-retained": "0 ms"}
COMMITS = 4


def context(io: MemoryFileIO) -> TableContext:
    table = Table.open(ROOT, io=io)
    return replace(table.context, options=parse_options({**table.schema.options, **NEWEST_ALONE}, table.schema))


def expired(io: MemoryFileIO) -> None:
    expire(context(io), Surroundings())


def rolled_back(io: MemoryFileIO) -> None:
    roll_back(context(io), plan_rollback(context(io), COMMITS - 1))


def refused(work: Callable[[MemoryFileIO], None], io: MemoryFileIO) -> bool:
    try:
        work(io)
    except (CommitConflict, ConfigError):
        return True
    return False


@pytest.mark.parametrize(
    ("work", "other"), [(rolled_back, expired), (expired, rolled_back)], ids=["expiry within", "rollback within"]
)
def test_a_snapshot_with_its_rows_is_left(
    work: Callable[[MemoryFileIO], None], other: Callable[[MemoryFileIO], None], tmp_path: Path
) -> None:
    columns, io = [("id", "INT"), ("v", "INT")], MemoryFileIO()
    driver = TableDriver(new_table(ROOT, columns, ["id"], (), None, io), tmp_path)
    for commit in range(1, COMMITS + 1):
        driver.commit([["+I", 1, commit]])
    files = dict(io.disk.files)
    alone = MemoryFileIO(MemoryDisk(dict(files)))
    work(alone)

    conflicts = 0
    for at in range(alone.operations):
        disk = MemoryDisk(dict(files))

        def others(disk: MemoryDisk = disk) -> None:
            refused(other, MemoryFileIO(disk))

        conflicts += refused(work, InterruptedIO(disk, at=at, other=others))

        table = Table.open(ROOT, io=MemoryFileIO(disk))
        newest = table.snapshots.latest_id()
        assert newest in {COMMITS - 1, COMMITS}, f"at {at}"
        assert TableDriver(table, tmp_path).content() == [[1, newest]]
    assert conflicts
