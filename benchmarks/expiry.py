"""Batches with expiry leave a bounded number of files: measures their number over time, and the cost of expiry.

    python -m benchmarks.expiry [--batches 300] [--rows 2000] [--retained 1s] [--producer lookup]

Each batch upserts rows of one table, as a pipeline does: APPEND, then COMPACT; the tidier of pipelines expires beside
it. The same batches without expiry run first, for comparison. Prints the number of files and bytes below the table and
the snapshots every tenth of the way, the time of a batch, and the time of an expiry.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.folders import folder_use
from paimon_table import Table, WriterEnvironment, create_schema
from paimon_table.maintenance.tidying import Tidied, tidy
from paimon_table.row_kind import VALUE_KIND
from paimon_table.types import parse_type
from pipelines.tidying.tidier import Tidier

KEYS = 50_000


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--retained", default="1s")
    parser.add_argument("--producer", default="lookup")
    args = parser.parse_args(arguments)
    for expires in (False, True):
        root = Path(tempfile.mkdtemp(prefix="expiry-"))
        try:
            print("with expiry" if expires else "without expiry", flush=True)
            _run(root, args, expires)
        finally:
            shutil.rmtree(root)


def _run(root: Path, args: argparse.Namespace, expires: bool) -> None:
    options = {
        "bucket": "2",
        "changelog-producer": args.producer,
        "snapshot.num-retained.min": "5",
        "snapshot.time-retained": args.retained,
    }
    columns = [("k", "INT"), ("v", "BIGINT"), ("s", "STRING")]
    schema = create_schema([(name, parse_type(text)) for name, text in columns], ["k"], [], options)
    table = Table.create(str(root / "t"), schema)
    spent_s: list[float] = []
    tidier = Tidier("benchmark", str(root), _timed(spent_s), rests_s=1.0)
    environment = WriterEnvironment(str(root / "lookup"))
    random, batch_s = np.random.default_rng(1), []
    commit = table.new_commit("benchmark", is_new_user=True)
    for batch in range(1, args.batches + 1):
        began_s = time.perf_counter()
        live = commit.refresh().live_files()
        assigned = table.assign(_rows(random, args.rows), live, environment)
        messages = []
        for bucket, rows in assigned.buckets.items():
            writer = table.bucket_writer(bucket, live.of(bucket), environment)
            writer.write(rows)
            messages.append(assigned.noted(writer.prepare_commit()))
        commit.commit(batch, messages, {"tidemark.pipeline": "benchmark"})
        batch_s.append(time.perf_counter() - began_s)
        if expires:
            tidier.note("t", table)
        if batch % max(args.batches // 10, 1) == 0:
            _tell(batch, table, root / "t")
    tidier.close(drains=True)
    if expires:
        _tell(args.batches, table, root / "t")
        median_ms = statistics.median(spent_s) * 1000
        print(f"  {len(spent_s)} expiries, median {median_ms:.1f} ms, longest {max(spent_s):.2f} s")
    half = len(batch_s) // 2
    first, second = (statistics.median(part) * 1000 for part in (batch_s[:half], batch_s[half:]))
    print(f"  median of a batch: {first:.0f} ms in the first half, {second:.0f} ms in the second", flush=True)


def _timed(spent_s: list[float]) -> Callable[..., Tidied]:
    def timed(*arguments: Any, **more: Any) -> Tidied:
        began_s = time.perf_counter()
        done = tidy(*arguments, **more)
        spent_s.append(time.perf_counter() - began_s)
        return done

    return timed


def _rows(random: np.random.Generator, count: int) -> pa.Table:
    keys = random.integers(0, KEYS, count).astype(np.int32)
    values = random.integers(0, 1 << 40, count)
    texts = pa.array([f"value {value:x}" for value in values])
    kinds = pa.array(np.zeros(count, np.int8))
    return pa.table([pa.array(keys), pa.array(values), texts, kinds], ["k", "v", "s", VALUE_KIND])


def _tell(batch: int, table: Table, root: Path) -> None:
    use, manifests = folder_use(root), folder_use(root / "manifest")
    first, last = table.snapshots.earliest_id() or 0, table.snapshots.latest_id() or 0
    kept = last - first + 1
    print(
        f"  batch {batch:4}: {use.files:6,} files ({manifests.files:,} manifests), {use.size_bytes / 1e6:8.1f} MB, "
        f"{kept:4} of {last:4} snapshots kept",
        flush=True,
    )


if __name__ == "__main__":
    main()
