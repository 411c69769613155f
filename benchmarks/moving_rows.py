"""Tables whose rows move between partitions: the speed of building the index of keys, and the cost of a batch at its
size.

    python -m benchmarks.moving_rows [--keys N ...] [--batch N] [--batches N]

For each number of keys (1 000 000 and 20 000 000) a table of the columns pt STRING, k BIGINT, v INT with that many rows
in 8 partitions is written. Then the index of each of two lanes is built from the files alone, one after the other, each
looking at all keys as a task does. Then batches of 20 000 rows are committed: half stay where they are, a quarter move,
a quarter are new keys. A batch is timed from the rows to the published snapshot, and its assignment apart. The first
batches build lookup files of the rows that they move; the median of the others counts.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from paimon_table import Table, TableCommit, WriterEnvironment, open_assigner
from paimon_table.row_kind import VALUE_KIND
from paimon_table.write.bucket_writer import BucketWriter
from pipelines.spark.session import LOCAL_ALLOCATION
from tests.support.table_driver import new_table

LANES = 2
PARTITIONS = 8
LOADED_AT_ONCE = 2_000_000
WARM_UP = 3
OPTIONS = {"bucket": "-1", "dynamic-bucket.initial-buckets": str(LANES), "write-only": "true"}


@dataclass(frozen=True, slots=True)
class Measured:
    """One line of the outcome; times in seconds."""

    keys: int
    build_s: float
    index_bytes: int
    first_batch_s: float
    batch_s: float
    assign_s: float


def rows_of(keys: np.ndarray, partitions: np.ndarray) -> pa.Table:
    names = pa.array([f"p{n}" for n in range(PARTITIONS)])
    count = len(keys)
    return pa.table({
        "pt": names.take(pa.array(partitions)),
        "k": pa.array(keys, pa.int64()),
        "v": pa.array(np.arange(count) % 1000, pa.int32()),
        VALUE_KIND: pa.array(np.zeros(count, np.int8)),
    })  # fmt: skip


class Writer:
    """Commits batches as one process that owns all lanes."""

    def __init__(self, table: Table, directory: Path) -> None:
        self.environment = WriterEnvironment(str(directory))
        self._table = table
        self._commit: TableCommit = table.new_commit("bench")
        self._number = 0
        self.assign_s = 0.0

    def commit(self, rows: pa.Table) -> float:
        """Seconds from the rows to the snapshot."""
        started = time.perf_counter()
        live = self._commit.refresh().live_files()
        assigned = self._table.assign(rows, live, self.environment)
        self.assign_s = time.perf_counter() - started
        messages = []
        for bucket, part in assigned.buckets.items():
            writer = BucketWriter(self._table.context, bucket, live.of(bucket), self.environment)
            writer.write(part)
            messages.append(assigned.noted(writer.prepare_append()))
        assigned.appended(messages)
        self._number += 1
        self._commit.commit(self._number, messages, {"tidemark.lanes": str(LANES)})
        return time.perf_counter() - started


def measured(key_count: int, batch_rows: int, batches: int, directory: Path) -> Measured:
    table = new_table(directory / "t", [("pt", "STRING"), ("k", "BIGINT"), ("v", "INT")], ["k"], ["pt"], OPTIONS)
    loading = Writer(table, directory / "loading")
    for start in range(0, key_count, LOADED_AT_ONCE):
        keys = np.arange(start, min(start + LOADED_AT_ONCE, key_count))
        loading.commit(rows_of(keys, keys * 7919 // 3 % PARTITIONS))
    shutil.rmtree(directory / "loading")

    writer = Writer(table, directory / "lookup")
    started = time.perf_counter()
    live = table.state().live_files()
    assigner = open_assigner(table.context, live, writer.environment)
    for lane, part in table.lanes(live).split(rows_of(np.arange(1000), np.zeros(1000, np.int64))):
        list(assigner.find(lane, part.select(["k"])))
    build_s = time.perf_counter() - started
    index_bytes = sum(file.stat().st_size for file in (directory / "lookup").rglob("*keys*"))

    draw = np.random.default_rng(1)
    where = np.arange(key_count) * 7919 // 3 % PARTITIONS
    seconds, assign = [], []
    for _ in range(batches):
        old = draw.choice(key_count, batch_rows * 3 // 4, replace=False)
        moved = old[: batch_rows // 4]
        where[moved] = (where[moved] + 1) % PARTITIONS
        new = np.arange(len(where), len(where) + batch_rows // 4)
        where = np.concatenate([where, new % PARTITIONS])
        keys = np.concatenate([old, new])
        seconds.append(writer.commit(rows_of(keys, where[keys])))
        assign.append(writer.assign_s)
    return Measured(
        key_count,
        build_s,
        index_bytes,
        seconds[0],
        statistics.median(seconds[WARM_UP:]),
        statistics.median(assign[WARM_UP:]),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000_000, 20_000_000])
    parser.add_argument("--batch", type=int, default=20_000)
    parser.add_argument("--batches", type=int, default=12)
    given = parser.parse_args(arguments)
    os.environ.update(LOCAL_ALLOCATION)
    print(f"batches of {given.batch} rows, {LANES} lanes, {PARTITIONS} partitions")
    for keys in given.keys:
        with tempfile.TemporaryDirectory() as directory:
            found = measured(keys, given.batch, given.batches, Path(directory))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(
            f"{found.keys:>11} keys: index built in {found.build_s:.2f} s ({found.keys / found.build_s:,.0f} rows/s,"
            f" {found.index_bytes >> 20} MiB), first batch {found.first_batch_s:.2f} s, then {found.batch_s:.3f} s a"
            f" batch, {found.assign_s:.3f} s of it assigning; peak memory of the process {peak} MiB"
        )


if __name__ == "__main__":
    main()
