"""The table engine alone, one core: rows per second of write and compaction, compared with Java Paimon's core writer.

    python -m benchmarks.engine [--rows N] [--keys N] [--only WORD ...] [--no-java]
    python -m benchmarks.engine --at-size

A pass is ``--rows`` rows (1 000 000) in 5 commits over ``--keys`` random keys (500 000). The first pass inserts, the
second updates and is the one that counts. A commit is timed from the first row in the writer of the one bucket to the
published snapshot, compaction included. Making the rows and choosing the bucket do not count on either side. Both run
on the same core, one after the other, with equal rows (engine_rows.py, JavaWriter.java) and equal options. The process
allocates memory as the workers of a pipeline do (``pipelines.spark.session``). Java is left out where no JDK is
installed.

``--at-size`` asks whether a commit costs the same in a large table. It times commits of ``--batch`` updates in tables
of ``--sizes`` rows, with the changelog of ``--producer``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table as TextTable

from benchmarks import java_writer
from benchmarks.engine_rows import COLUMNS, rows_of
from paimon_table import BucketId, Table, Writer, WriterEnvironment
from paimon_table.errors import UnsupportedFeature
from pipelines.spark.session import LOCAL_ALLOCATION
from tests.support.table_driver import new_table

COMMITS_PER_PASS = 5
_FILL_ROWS = 250_000
_ALL_KEYS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Workload:
    """Table options; ``target`` is the rows/s to reach; ``in_halves`` leaves every second stream's columns NULL."""

    name: str
    options: Mapping[str, str]
    target: int = 100_000
    in_halves: bool = False
    full_every: int = 0
    """A full compaction after this number of commits; 0 for never."""
    primary_key: tuple[str, ...] = ("k",)


_DYNAMIC = {"bucket": "-1", "dynamic-bucket.initial-buckets": "1"}
_LOOKUP = {"changelog-producer": "lookup"}
_PARTIAL = {"merge-engine": "partial-update"}
_AGGREGATION = {
    "merge-engine": "aggregation",
    "fields.b1.aggregate-function": "sum",
    "fields.b2.aggregate-function": "sum",
    "fields.d1.aggregate-function": "max",
    "fields.n.aggregate-function": "max",
}
_GROUPS = {"fields.b1.sequence-group": "b2,d1,s1", "fields.n.sequence-group": "b3,d2,s2,s3"}
WORKLOADS = (
    Workload("deduplicate", {}, 800_000),
    Workload("deduplicate, dynamic buckets", _DYNAMIC),
    Workload("deduplicate, dynamic buckets, lookup", {**_DYNAMIC, **_LOOKUP}),
    Workload("append", {"bucket": "-1"}, primary_key=()),
    Workload("deduplicate, orc", {"file.format": "orc"}),
    Workload("deduplicate, avro", {"file.format": "avro"}),
    Workload("deduplicate, input", {"changelog-producer": "input"}),
    Workload("deduplicate, lookup", _LOOKUP, 300_000),
    Workload("deduplicate, full-compaction", {"changelog-producer": "full-compaction"}, full_every=5),
    Workload("deduplicate, deletion vectors", {"deletion-vectors.enabled": "true"}),
    Workload("first-row", {"merge-engine": "first-row"}),
    Workload("first-row, lookup", {"merge-engine": "first-row", **_LOOKUP}),
    Workload("partial-update", _PARTIAL, 300_000, in_halves=True),
    Workload("partial-update, lookup", {**_PARTIAL, **_LOOKUP}, in_halves=True),
    Workload("partial-update, groups", {**_PARTIAL, **_GROUPS}, in_halves=True),
    Workload("aggregation", _AGGREGATION, 300_000),
    Workload("aggregation, lookup", {**_AGGREGATION, **_LOOKUP}),
)


class EngineRun:
    """One table and the writers of its buckets, which stay open; it has one bucket unless it is a dynamic one."""

    def __init__(self, directory: Path, options: Mapping[str, str], primary_key: Sequence[str] = ("k",)) -> None:
        self.table = new_table(directory / "tidemark", COLUMNS, primary_key, options=options)
        self._environment = WriterEnvironment(str(directory / "lookup"))
        self._writers: dict[BucketId, Writer] = {}
        self._identifier = 0

    def commit_seconds(self, first: int, count: int, keys: int, in_halves: bool = False, full: bool = False) -> float:
        """Seconds of writing and committing rows ``first`` to ``first + count``."""
        rows = rows_of(first, count, keys, in_halves)
        started = time.perf_counter()
        commit = self.table.new_commit("benchmark")
        live = commit.refresh().live_files()
        assigned = self.table.assign(rows, live, self._environment)
        messages = []
        for bucket, part in assigned.buckets.items():
            if bucket not in self._writers:
                self._writers[bucket] = self.table.bucket_writer(bucket, live.of(bucket), self._environment)
            self._writers[bucket].write(part)
            messages.append(assigned.noted(self._writers[bucket].prepare_commit(full_compact=full)))
        self._identifier += 1
        commit.commit(self._identifier, messages, {})
        return time.perf_counter() - started


def tidemark_seconds(workload: Workload, directory: Path, passes: int, rows: int, keys: int) -> list[float]:
    run = EngineRun(directory, workload.options, workload.primary_key)
    per_commit = rows // COMMITS_PER_PASS
    return [
        run.commit_seconds(
            i * per_commit,
            per_commit,
            keys,
            workload.in_halves,
            workload.full_every > 0 and (i + 1) % workload.full_every == 0,
        )
        for i in range(passes * COMMITS_PER_PASS)
    ]


def java_seconds(workload: Workload, directory: Path, passes: int, rows: int, keys: int) -> Sequence[float]:
    path = directory / "java"
    new_table(path, COLUMNS, workload.primary_key, options=workload.options)
    return java_writer.commit_seconds(
        path,
        directory / "java-scratch",
        passes * COMMITS_PER_PASS,
        rows // COMMITS_PER_PASS,
        keys,
        in_halves=workload.in_halves,
        full_every=workload.full_every,
    )


def live_files(path: Path) -> str:
    """Rows and megabytes of the live files."""
    table = Table.open_for_reading(str(path))
    state = table.state()
    files = [file for bucket in state.files.values() for file in bucket]
    return f"{sum(f.row_count for f in files):,} / {sum(f.file_size_bytes for f in files) / 1e6:.0f} MB"


def compare(workloads: Sequence[Workload], rows: int, keys: int, passes: int, with_java: bool) -> None:
    text = TextTable(
        "workload", "target", "first pass", "second pass", "Java first", "Java second", "ratio", "rows / size"
    )
    for column in text.columns[1:]:
        column.justify = "right"
    for workload in workloads:
        with tempfile.TemporaryDirectory(prefix="tidemark-engine-") as name:
            directory = Path(name)
            try:
                own = _rates(tidemark_seconds(workload, directory, passes, rows, keys), rows)
            except UnsupportedFeature as unsupported:
                print(f"{workload.name}: left out: {unsupported}", flush=True)
                continue
            size = live_files(directory / "tidemark")
            java = _rates(java_seconds(workload, directory, passes, rows, keys), rows) if with_java else []
            shown = [f"{rate:,.0f}" for rate in (own[0], own[-1])]
            shown += [f"{rate:,.0f}" for rate in (java[0], java[-1])] if java else ["-", "-"]
            ratio = f"{own[-1] / java[-1]:.1f}" if java else "-"
            text.add_row(workload.name, f"{workload.target:,}", *shown, ratio, size)
            print(workload.name, *shown, ratio, size, sep=" | ", flush=True)
    Console(width=140).print(text)


def _rates(seconds: Sequence[float], rows: int) -> list[float]:
    """Rows per second of each pass."""
    starts = range(0, len(seconds), COMMITS_PER_PASS)
    return [rows / sum(seconds[start : start + COMMITS_PER_PASS]) for start in starts]


def at_size(producer: str, sizes: Sequence[int], batch: int, batches: int, with_java: bool) -> None:
    """Print the time of small update commits in tables of each size, and the ratio of largest to smallest.

    Tidemark commits to the tables in turn, so that both meet the same speed of the machine. Java commits the same rows
    to copies of the tables, one after the other.
    """
    with tempfile.TemporaryDirectory(prefix="tidemark-engine-") as name:
        directory = Path(name)
        runs = [EngineRun(directory / str(size), {"changelog-producer": producer}) for size in sizes]
        for run, size in zip(runs, sizes, strict=True):
            for first in range(0, size, _FILL_ROWS):
                run.commit_seconds(first, min(_FILL_ROWS, size - first), _ALL_KEYS)
            if with_java:
                shutil.copytree(directory / str(size), directory / f"java-{size}")
        seconds: list[list[float]] = [[] for _ in runs]
        for i in range(batches):
            for run, size, of_size in zip(runs, sizes, seconds, strict=True):
                of_size.append(run.commit_seconds(i * batch % size, batch, _ALL_KEYS))
        _print_times("Tidemark", sizes, seconds)
        if with_java:
            _print_times("Java", sizes, [_java_at_size(directory, size, batch, batches) for size in sizes])


def _java_at_size(directory: Path, size: int, batch: int, batches: int) -> Sequence[float]:
    table, scratch = directory / f"java-{size}" / "tidemark", directory / f"java-scratch-{size}"
    return java_writer.commit_seconds(table, scratch, batches, batch, _ALL_KEYS, different_rows=size)


def _print_times(name: str, sizes: Sequence[int], seconds: Sequence[Sequence[float]]) -> None:
    for size, times in zip(sizes, seconds, strict=True):
        mean, median, slowest = (1000 * of(times) for of in (statistics.mean, statistics.median, max))
        print(
            f"{name}, {size:>10,} rows: mean {mean:7.1f}, median {median:7.1f}, slowest {slowest:7.1f} ms", flush=True
        )
    means, medians = ([of(times) for times in seconds] for of in (statistics.mean, statistics.median))
    print(f"{name}: ratio of the means {means[-1] / means[0]:.2f}, of the medians {medians[-1] / medians[0]:.2f}")


def allocate_as_workers_do() -> None:
    """Start this program again under the workers' environment, which is read when a process begins."""
    missing = {name: value for name, value in LOCAL_ALLOCATION.items() if name not in os.environ}
    if missing:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **missing})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of a pass")
    parser.add_argument("--keys", type=int, default=500_000)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[], help="workloads whose name has one of these words")
    parser.add_argument("--no-java", action="store_true", help="leave Java out")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="the core to run on")
    parser.add_argument("--at-size", action="store_true", help="time small commits in a small and in a large table")
    parser.add_argument("--producer", default="lookup", help="changelog producer of --at-size")
    parser.add_argument("--sizes", type=int, nargs="+", default=[500_000, 5_000_000], help="rows of --at-size")
    parser.add_argument("--batch", type=int, default=10_000, help="rows of a commit of --at-size")
    args = parser.parse_args()
    allocate_as_workers_do()
    os.sched_setaffinity(0, {args.core})
    with_java = not args.no_java and java_writer.is_available()
    if args.at_size:
        at_size(args.producer, args.sizes, args.batch, 60, with_java)
        return
    chosen = [w for w in WORKLOADS if not args.only or any(word in w.name for word in args.only)]
    compare(chosen, args.rows, args.keys, args.passes, with_java)


if __name__ == "__main__":
    main()
