"""Batches into dynamic buckets, with a power cut after every single storage operation of the table."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from paimon_table.bucket_assignment.held_hashes import held_hashes
from paimon_table.metadata.hash_index import read_hashes
from paimon_table.row_kind import VALUE_KIND
from paimon_table.rows.hashes import murmur_hash_columns
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO, SimulatedCrash
from paimon_table.table import Table
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.support.table_driver import new_table

BATCHES = {0: range(6), 1: range(3, 10), 2: range(0, 13, 2)}
OPTIONS = {"bucket": "-1", "dynamic-bucket.target-row-num": "3", "dynamic-bucket.initial-buckets": "2"}


def run_process(io: MemoryFileIO, lookup_dir: Path, completed: list[int]) -> None:
    """One life of the driver and its only task; what is held of index files is lost with it."""
    held_hashes.cache_clear()
    table = new_table("/w/t", [("k", "INT"), ("batch", "INT")], ["k"], (), OPTIONS, io)
    commit = table.new_commit("user")
    environment = WriterEnvironment(str(lookup_dir))
    for batch, keys in BATCHES.items():
        if batch in completed:
            continue
        live = commit.refresh().live_files()
        rows = pa.table({
            "k": pa.array(keys, pa.int32()),
            "batch": pa.array([batch] * len(keys), pa.int32()),
            VALUE_KIND: pa.array([0] * len(keys), pa.int8()),
        })  # fmt: skip
        done = commit.committed_identifier()
        assigned = table.assign(rows.slice(0, 0 if done is not None and done >= batch else None), live, environment)
        messages = []
        for bucket, part in assigned.buckets.items():
            writer = table.bucket_writer(bucket, live.of(bucket), environment)
            writer.write(part)
            messages.append(assigned.noted(writer.prepare_commit()))
        commit.commit(batch, messages, {})
        completed.append(batch)


def check(disk: MemoryDisk) -> None:
    table = Table.open("/w/t", io=MemoryFileIO(disk))
    expected = {key: batch for batch, keys in BATCHES.items() for key in keys}
    rows = table.to_arrow()
    assert dict(zip(rows["k"].to_pylist(), rows["batch"].to_pylist(), strict=True)) == expected
    assert len(rows) == len(expected)
    index = [read_hashes(table.io, table.paths, entry.file) for entry in table.state().index]
    hashes = murmur_hash_columns([pa.array(list(expected), pa.int32())], [table.schema.field("k").type])
    assert np.sort(np.concatenate(index)).tolist() == np.sort(hashes).tolist()
    assert len(index) == len(table.state().files) >= 4


def survive(lookup_dir: Path, first: MemoryFileIO, next_io: Callable[[MemoryDisk], MemoryFileIO]) -> MemoryDisk:
    io, completed = first, list[int]()
    for _ in range(1000):
        try:
            run_process(io, lookup_dir, completed)
        except SimulatedCrash:
            io = next_io(io.disk.after_power_cut())
        else:
            return io.disk
    raise AssertionError("it never ends")


@pytest.mark.slow
def test_power_cut_after_any_operation_leaves_every_key_in_one_bucket(tmp_path: Path) -> None:
    whole = MemoryFileIO()
    run_process(whole, tmp_path, [])
    check(whole.disk)
    for crash_after in range(1, whole.operations + 1):
        check(survive(tmp_path, MemoryFileIO(crash_after=crash_after), MemoryFileIO))


@pytest.mark.slow
@pytest.mark.parametrize("period", [29, 41])
def test_power_cuts_again_and_again(tmp_path: Path, period: int) -> None:
    lives = itertools.count(period + 1)
    first = MemoryFileIO(crash_after=period)
    check(survive(tmp_path, first, lambda disk: MemoryFileIO(disk, crash_after=next(lives))))
