"""Sorting a table with a power cut after each storage operation: the rows are there once, in whichever order."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from paimon_table.maintenance.job import Job
from paimon_table.maintenance.sorting import sort
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO, SimulatedCrash
from paimon_table.table import Table
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.support.plain_values import sorted_rows
from tests.support.table_driver import TableDriver, new_table

ROOT = "/w/t"


@pytest.mark.crash
def test_rows_are_sorted_or_as_they_were(tmp_path: Path) -> None:
    io = MemoryFileIO()
    columns = [("p", "INT"), ("v", "INT")]
    driver = TableDriver(new_table(ROOT, columns, [], ["p"], {"bucket": "-1"}, io), tmp_path / "l")
    for start in (5, 0):
        driver.commit([["+I", n % 2, start + n] for n in range(6)])
    rows, disk = driver.content(), io.disk.after_power_cut()

    def run(on: MemoryDisk, crash_after: int | None = None) -> list[int]:
        disk_io = MemoryFileIO(on, crash_after)
        table = Table.open(ROOT, io=disk_io)
        environment = WriterEnvironment(str(tmp_path / "job"), write_buffer_bytes=64)
        sort(table, Job(environment), ["v"], lambda _: True)
        return disk_io.changes

    def content(on: MemoryDisk) -> tuple[list[list[object]], bool]:
        table = Table.open(ROOT, io=MemoryFileIO(on))
        read = [list(row.values()) for row in table.to_arrow().to_pylist()]
        return sorted_rows(read), all(a <= b for p in (0, 1) for a, b in pairwise([r[1] for r in read if r[0] == p]))

    changes = run(MemoryDisk(dict(disk.files)))
    states = set()
    for crash_after in changes:
        on = MemoryDisk(dict(disk.files))
        with pytest.raises(SimulatedCrash):
            run(on, crash_after)
        left = on.after_power_cut()
        found, is_sorted = content(left)
        assert found == rows
        states.add(is_sorted)
        run(left)
        assert content(left) == (rows, True)
    assert states == {False, True}
