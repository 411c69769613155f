"""Snapshots of jobs that change the index of dynamic buckets, with a power cut after each storage operation.

After each cut the table has its rows from before or from after the job, and its index files hold just their keys, so
that whoever writes next finds every key in its bucket.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from paimon_table.bucket_assignment.held_hashes import held_hashes
from paimon_table.maintenance.compaction import compact
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.partition_expiry import expire_partitions
from paimon_table.maintenance.partitions import drop_partitions, partition_facts, truncate
from paimon_table.metadata.hash_index import read_hashes
from paimon_table.rows.hashes import murmur_hash_columns
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO, SimulatedCrash
from paimon_table.table import Table
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.support.plain_values import Plain
from tests.support.table_driver import TableDriver, new_table

ROOT = "/w/t"
OPTIONS = {
    "bucket": "-1", "dynamic-bucket.target-row-num": "3", "dynamic-bucket.initial-buckets": "2",
    "changelog-producer": "lookup", "partition.expiration-time": "1 d", "partition.timestamp-formatter": "yyyy-MM-dd",
}  # fmt: skip
DAYS = ("2020-01-01", "2020-01-02", "2999-01-01")
DAY = 2

Work = Callable[[TableDriver, Job], object]


def drop_a_partition(driver: TableDriver, job: Job) -> None:
    facts = partition_facts(driver.table.context, driver.table.state())
    chosen = [partition for partition, fact in facts.items() if DAYS[1] in fact.directory]
    drop_partitions(driver.table, chosen, job)


JOBS: dict[str, Work] = {
    "drop-partition": drop_a_partition,
    "truncate": lambda driver, job: truncate(driver.table, job),
    "expire partitions": lambda driver, job: expire_partitions(driver.table, job, datetime(2026, 1, 1)),
    "compact fully": lambda driver, job: compact(driver.table, job, lambda _: True, fully=True),
    "overwrite": lambda driver, _: driver.overwrite(
        [["+I", key, 7, day] for key in range(5, 12) for day in DAYS[:DAY]]
    ),
}


def opened(io: MemoryFileIO, tmp_path: Path, user: str) -> TableDriver:
    held_hashes.cache_clear()
    return TableDriver(Table.open(ROOT, io=io), tmp_path / user, user)


def filled(tmp_path: Path) -> MemoryDisk:
    io = MemoryFileIO()
    columns = [("k", "INT"), ("v", "INT"), ("dt", "STRING")]
    new_table(ROOT, columns, ["k", "dt"], ["dt"], OPTIONS, io)
    driver = opened(io, tmp_path, "stream")
    driver.commit([["+I", key, 0, day] for key in range(6) for day in DAYS])
    driver.commit([["+U", key, 1, day] for key in range(3, 10) for day in DAYS])
    return io.disk.after_power_cut()


def check(disk: MemoryDisk, tmp_path: Path) -> list[list[Plain]]:
    """The rows: each key is there once, and so is it in the index of its partition."""
    io = MemoryFileIO(MemoryDisk(dict(disk.files)))
    driver = opened(io, tmp_path, "reader")
    table, rows = driver.table, driver.content()
    assert set(Counter((row[0], row[DAY]) for row in rows).values()) <= {1}
    state = table.state()
    assert len({entry.bucket for entry in state.index}) == len(state.index)
    held = defaultdict[str, list[int]](list)
    for entry in state.index:
        directory = table.context.partition_path(entry.bucket.partition)
        held[directory] += read_hashes(io, table.paths, entry.file).tolist()
    keys = defaultdict[str, list[int]](list)
    for key, _, day in rows:
        keys[f"dt={day}"].append(int(str(key)))
    type_ = table.schema.field("k").type
    expected = {day: murmur_hash_columns([pa.array(found, pa.int32())], [type_]) for day, found in keys.items()}
    assert {day: sorted(hashes) for day, hashes in held.items() if hashes} == {
        day: np.sort(hashes).tolist() for day, hashes in expected.items()
    }
    return rows


def check_goes_on(disk: MemoryDisk, tmp_path: Path) -> None:
    """A batch of old and new keys replaces rows and adds rows."""
    io = MemoryFileIO(MemoryDisk(dict(disk.files)))
    driver = opened(io, tmp_path, "later")
    before = {(row[0], row[DAY]): row for row in driver.content()}
    new = [[key, 9, day] for key in range(0, 14, 2) for day in DAYS]
    driver.commit([["+U", *row] for row in new])
    after = before | {(row[0], row[DAY]): row for row in new}
    assert sorted(check(io.disk, tmp_path), key=str) == sorted(after.values(), key=str)


@pytest.mark.crash
@pytest.mark.parametrize("name", JOBS)
def test_power_cut_after_any_operation(name: str, tmp_path: Path) -> None:
    disk = filled(tmp_path)
    before = check(disk, tmp_path)

    def run(on: MemoryDisk, crash_after: int | None = None) -> MemoryFileIO:
        io = MemoryFileIO(on, crash_after)
        JOBS[name](opened(io, tmp_path, "job"), Job(WriterEnvironment(str(tmp_path / "scratch"))))
        return io

    def copied() -> MemoryDisk:
        return MemoryDisk(dict(disk.files))

    whole = run(copied())
    after = check(whole.disk, tmp_path)
    assert after != before or name == "compact fully"
    check_goes_on(whole.disk, tmp_path)
    seen = set[bool]()
    for crash_after in whole.changes:
        on = copied()
        with pytest.raises(SimulatedCrash):
            run(on, crash_after)
        left = on.after_power_cut()
        rows = check(left, tmp_path)
        assert rows in (before, after), f"crash after {crash_after}"
        if (rows == after) not in seen or crash_after % 5 == 0:
            seen.add(rows == after)
            check_goes_on(left, tmp_path)
        run(left)
        assert check(left, tmp_path) == after, f"crash after {crash_after}"
