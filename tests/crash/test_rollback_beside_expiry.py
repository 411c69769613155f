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
from paimon_table.surroundings import now_ms
from paimon_table.table import Table
from tests.support.interrupted_io import InterruptedIO
from tests.support.table_driver import TableDriver, new_table

ROOT = "/w/t"
NEWEST_ALONE = {"snapshot.num-retained.min": "1", "snapshot.time-retained": "0 ms"}
KEEPS_CHANGELOGS = {"changelog.num-retained.min": "10", "changelog.num-retained.max": "20"}
COMMITS = 4


def context(io: MemoryFileIO) -> TableContext:
    table = Table.open(ROOT, io=io)
    return replace(table.context, options=parse_options({**table.schema.options, **NEWEST_ALONE}, table.schema))


def expired(io: MemoryFileIO) -> None:
    expire(context(io), Surroundings(clock_ms=lambda: now_ms() + 60_000))


def rolled_back(io: MemoryFileIO, to: int = COMMITS - 1) -> None:
    roll_back(context(io), plan_rollback(context(io), to))


def rolled_back_far(io: MemoryFileIO) -> None:
    rolled_back(io, COMMITS - 2)


Work = Callable[[MemoryFileIO], None]


def refused(work: Callable[[MemoryFileIO], None], io: MemoryFileIO) -> bool:
    try:
        work(io)
    except (CommitConflict, ConfigError):
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, KEEPS_CHANGELOGS], ids=["", "changelogs outlive"])
@pytest.mark.parametrize("rollback", [rolled_back, rolled_back_far])
@pytest.mark.parametrize("is_expiry_within", [True, False], ids=["expiry within", "rollback within"])
def test_a_snapshot_with_its_rows_is_left(
    rollback: Work, is_expiry_within: bool, options: dict[str, str], tmp_path: Path
) -> None:
    work, other = (rollback, expired) if is_expiry_within else (expired, rollback)
    columns, io = [("id", "INT"), ("v", "INT")], MemoryFileIO()
    driver = TableDriver(new_table(ROOT, columns, ["id"], (), options, io), tmp_path)
    for commit in range(1, COMMITS + 1):
        driver.commit([["+I", 1, commit]])
    files = dict(io.disk.files)
    alone = MemoryFileIO(MemoryDisk(dict(files)))
    work(alone)

    conflicts = 0
    for at in range(alone.operations):
        disk = MemoryDisk(dict(files))

        others_refused = list[bool]()

        def others(disk: MemoryDisk = disk, told: list[bool] = others_refused) -> None:
            told.append(refused(other, MemoryFileIO(disk)))

        is_refused = refused(work, InterruptedIO(disk, at=at, other=others))
        conflicts += is_refused or others_refused[0]

        table = Table.open(ROOT, io=MemoryFileIO(disk))
        newest, to = table.snapshots.latest_id(), COMMITS - 1 if rollback is rolled_back else COMMITS - 2
        assert newest in range(to, COMMITS + 1), f"at {at}"
        assert newest == to or (others_refused[0] if work is expired else is_refused), f"at {at}"
        assert max(table.snapshots.changelog_ids(), default=0) < (table.snapshots.earliest_id() or 0), f"at {at}"
        assert TableDriver(table, tmp_path).content() == [[1, newest]]
    assert conflicts
