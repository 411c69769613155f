"""Batches whose rows move between partitions, with power cuts between the storage operations of the table.

The index of keys lies on a local disk: it outlives the process, is lost with the machine, or is damaged.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_table.lookup.cache import shared_lookup_cache
from paimon_table.row_kind import VALUE_KIND
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO, SimulatedCrash
from paimon_table.table import Table
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.support.table_driver import new_table

BATCHES = {0: [("a", k) for k in range(4)], 1: [("b", k) for k in range(2, 5)], 2: [("a", 2), ("b", 0), ("b", 7)]}
OPTIONS = {
    "bucket": "-1",
    "dynamic-bucket.initial-buckets": "2",
    "changelog-producer": "lookup",
}
AfterCrash = Callable[[Path], None]


def run_process(io: MemoryFileIO, lookup_dir: Path, completed: list[int]) -> None:
    """One life of the driver and its only task."""
    table = new_table("/w/t", [("pt", "STRING"), ("k", "INT"), ("batch", "INT")], ["k"], ["pt"], OPTIONS, io)
    commit = table.new_commit("user")
    environment = WriterEnvironment(str(lookup_dir))
    for batch, places in BATCHES.items():
        if batch in completed:
            continue
        done = commit.committed_identifier()
        live = commit.refresh().live_files()
        rows = pa.table({
            "pt": pa.array([pt for pt, _ in places]),
            "k": pa.array([k for _, k in places], pa.int32()),
            "batch": pa.array([batch] * len(places), pa.int32()),
            VALUE_KIND: pa.array([0] * len(places), pa.int8()),
        })  # fmt: skip
        is_appended = done is not None and done >= batch
        assigned = table.assign(rows.slice(0, 0) if is_appended else rows, live, environment)
        messages = []
        for bucket in live.files.keys() | assigned.buckets.keys():
            writer = table.bucket_writer(bucket, live.of(bucket), environment)
            if bucket in assigned.buckets:
                writer.write(assigned.buckets[bucket])
            messages.append(writer.prepare_commit())
        assigned.appended(messages)
        commit.commit(batch, [message for message in messages if not message.is_empty], {})
        completed.append(batch)


def check(disk: MemoryDisk) -> None:
    """Every key is where it came last, once, and the changelog leads there."""
    table = Table.open("/w/t", io=MemoryFileIO(disk))
    expected = {k: (pt, batch) for batch, places in BATCHES.items() for pt, k in places}
    rows = table.to_arrow().to_pylist()
    assert sorted((r["k"], (r["pt"], r["batch"])) for r in rows) == sorted(expected.items())
    seen: list[tuple[str, int, int]] = []
    for _, changes in table.changes():
        changed = sorted(changes.to_pylist(), key=lambda row: row[VALUE_KIND] in (0, 2))
        for row in changed:
            value = (row["pt"], row["k"], row["batch"])
            seen.append(value) if row[VALUE_KIND] in (0, 2) else seen.remove(value)
    assert sorted(seen) == sorted((r["pt"], r["k"], r["batch"]) for r in rows)


def survive(
    lookup_dir: Path, first: MemoryFileIO, next_io: Callable[[MemoryDisk], MemoryFileIO], after_crash: AfterCrash
) -> None:
    io, completed = first, list[int]()
    for _ in range(1000):
        try:
            run_process(io, lookup_dir, completed)
        except SimulatedCrash:
            io = next_io(io.disk.after_power_cut())
            after_crash(lookup_dir)
            shared_lookup_cache.cache_clear()
        else:
            check(io.disk)
            return
    raise AssertionError("it never ends")


def keep(lookup_dir: Path) -> None:
    """The process died, the machine goes on."""


def lose(lookup_dir: Path) -> None:
    shutil.rmtree(lookup_dir, ignore_errors=True)


def damage(lookup_dir: Path) -> None:
    """Every file of the index ends in the middle."""
    for path in lookup_dir.rglob("keys-*"):
        if path.is_file():
            half = path.read_bytes()[: path.stat().st_size // 2]
            path.unlink()  # whoever has it mapped keeps it whole
            path.write_bytes(half)


@pytest.mark.slow
@pytest.mark.parametrize("after_crash", [keep, lose, damage])
def test_power_cut_at_any_time_leaves_every_key_in_one_place(tmp_path: Path, after_crash: AfterCrash) -> None:
    whole = MemoryFileIO()
    run_process(whole, tmp_path / "whole", [])
    check(whole.disk)
    step = 3 if after_crash is keep else 11
    for crash_after in range(1, whole.operations + 1, step):
        survive(tmp_path / str(crash_after), MemoryFileIO(crash_after=crash_after), MemoryFileIO, after_crash)


@pytest.mark.slow
@pytest.mark.parametrize("period", [37, 53])
def test_power_cuts_again_and_again(tmp_path: Path, period: int) -> None:
    lives = itertools.count(period + 1)
    first = MemoryFileIO(crash_after=period)
    survive(tmp_path / "lookup", first, lambda disk: MemoryFileIO(disk, crash_after=next(lives)), keep)


@pytest.mark.slow
def test_a_damaged_index_is_built_again_in_the_middle_of_a_run(tmp_path: Path) -> None:
    io = MemoryFileIO()
    completed: list[int] = []
    for batch in BATCHES:
        run_process(io, tmp_path, [*completed, *(other for other in BATCHES if other > batch)])
        completed.append(batch)
        damage(tmp_path)
        shared_lookup_cache.cache_clear()
    check(io.disk)
