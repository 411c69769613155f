"""A table with very many data files and snapshots: the time of a small batch and of the plan of a filtered scan.

    python -m benchmarks.large_table [--files 100000] [--snapshots 10000] [--partitions 500] [--keep DIRECTORY]

The history is committed snapshot by snapshot, as a writer would, with the metadata of files that do not exist. The
measured steps read only the metadata of the table, except for the rows of the small batches, which are real. Each line
with "new process" includes opening the table and reading its manifests; "limit" is the promised time.
"""

from __future__ import annotations

import argparse
import pickle
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table import FilePacker, Table, TableCommit, WriterEnvironment
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.data_file import DataFileMeta, FileSource, SimpleStats
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.row_kind import VALUE_KIND
from paimon_table.rows.binary_row import serialize_row
from paimon_table.schema.table_schema import create_schema
from paimon_table.storage.counting_io import CountingFileIO
from paimon_table.storage.file_io import LocalFileIO
from paimon_table.surroundings import now_ms, random_uuid
from paimon_table.types import parse_type

LIMIT_S = 2.0
BUCKETS = 4
FILE_BYTES = 128 << 20
ROWS_PER_FILE = 1_000_000
COLUMNS = (
    ("id", "BIGINT"),
    ("day", "STRING"),
    ("customer", "BIGINT"),
    ("status", "STRING"),
    ("total", "DECIMAL(12, 2)"),
    ("placed_at", "TIMESTAMP(3)"),
    ("updated_at", "TIMESTAMP(6)"),
    ("note", "STRING"),
)


@dataclass
class Times:
    """The measured times and the promised ones."""

    over: list[str] = field(default_factory=list)

    def tell(self, what: str, seconds: float, cpu_s: float, limit_s: float | None = None, more: str = "") -> None:
        limit = "" if limit_s is None else f"   (limit {limit_s:g} s)"
        print(f"{what:<62}{seconds * 1000:>8.0f} ms, {cpu_s * 1000:>6.0f} ms of CPU{limit}{more}", flush=True)
        if limit_s is not None and seconds > limit_s:
            self.over.append(what)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--snapshots", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=500)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--keep", type=Path, help="Directory of the table, kept; one that is there is used again.")
    args = parser.parse_args(arguments)
    root = args.keep or Path(tempfile.mkdtemp(prefix="large-table-"))
    times = Times()
    try:
        path = str(root / "t")
        if not Path(path).exists():
            _build(path, args.files, args.snapshots, args.partitions, times)
        _tell(path)
        _plans(path, args.partitions, times)
        _batches(path, args.partitions, args.batches, times)
    finally:
        if args.keep is None:
            shutil.rmtree(root)
    if times.over:
        sys.exit(f"over the limit: {', '.join(times.over)}")


# ---------------------------------------------------------------- the history


def _build(path: str, files: int, snapshots: int, partitions: int, times: Times) -> None:
    """A snapshot every five minutes, each with files of a few buckets, day after day."""
    columns = [(name, parse_type(text)) for name, text in COLUMNS]
    schema = create_schema(columns, ["day", "id"], ["day"], {"bucket": str(BUCKETS), "write-only": "true"})
    table = Table.create(path, schema)
    clock_ms = iter(range(now_ms() - 300_000 * snapshots, now_ms() + 1, 300_000))
    commit = table.new_commit("history", clock_ms=lambda: at_ms)
    buckets = [BucketId(_partition(day), bucket) for day in range(partitions) for bucket in range(BUCKETS)]
    made = [0] * len(buckets)
    identifiers = iter(range(1, snapshots + 1))
    started, started_cpu = time.perf_counter(), time.process_time()
    step = max(1, snapshots // 10)
    slowest = 0.0
    for number, identifier in enumerate(identifiers):
        at_ms = next(clock_ms)
        first, last = number * files // snapshots, (number + 1) * files // snapshots
        messages = []
        for at in range(first, last):
            place = at * len(buckets) // files  # day after day, as time goes
            messages.append(
                CommitMessage(
                    bucket=buckets[place], total_buckets=BUCKETS, new_files=(_file(made[place], place // BUCKETS),)
                )
            )
            made[place] += 1
        before = time.perf_counter()
        commit.commit(identifier, messages, {"tidemark.batch": str(identifier)}, started_ms=at_ms)
        slowest = max(slowest, time.perf_counter() - before)
        if (number + 1) % step == 0:
            seconds, cpu = time.perf_counter() - started, time.process_time() - started_cpu
            more = f"   slowest {slowest * 1000:.0f} ms"
            times.tell(
                f"history: one of the commits up to snapshot {number + 1}", seconds / step, cpu / step, None, more
            )
            started, started_cpu, slowest = time.perf_counter(), time.process_time(), 0.0


def _partition(day: int) -> bytes:
    return serialize_row([f"2024-{day:05d}"], [parse_type("STRING")])


def _file(number: int, day: int) -> DataFileMeta:
    """The number-th file of a bucket, on the highest level."""
    low, high = (serialize_row([key], [parse_type("BIGINT")]) for key in _keys(number))
    types = [parse_type(text) for _, text in COLUMNS]
    text = f"2024-{day:05d}"
    times = (1_700_000_000_000 + day, 1_700_000_000_000_000 + day)
    least = [_keys(number)[0], text, number + 1, "cancelled", Decimal("1.00"), *times, "a note"]
    most = [_keys(number)[1], text, 9_999_999 + number, "shipped", Decimal("999999.99"), *times]
    bounds = [serialize_row(values, types) for values in (least, [*most, "the note at t!"])]
    return DataFileMeta(
        file_name=f"data-{random_uuid()}-{number}.parquet",
        file_size_bytes=FILE_BYTES + number,
        row_count=ROWS_PER_FILE,
        min_key=low,
        max_key=high,
        key_stats=SimpleStats(low, high, (0,)),
        value_stats=SimpleStats(*bounds, (0,) * len(COLUMNS)),
        min_sequence_number=number * ROWS_PER_FILE,
        max_sequence_number=(number + 1) * ROWS_PER_FILE - 1,
        schema_id=0,
        level=5,
        creation_time_ms=now_ms(),
        delete_row_count=0,
        file_source=int(FileSource.COMPACT),
    )


def _keys(number: int) -> tuple[int, int]:
    return number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE - 1


def _tell(path: str) -> None:
    table = Table.open(path)
    newest = table.snapshots.latest()
    assert newest is not None
    state = table.state(newest)
    manifests = ManifestReader(table.io, table.paths).all_manifests(newest)
    sizes = sum(manifest.file_size_bytes for manifest in manifests)
    files = sum(map(len, state.files.values()))
    print(
        f"{files:,} data files in {len(state.files):,} buckets of {len(state.total_buckets):,} partitions, "
        f"{newest.id:,} snapshots; {len(manifests)} manifests of {sizes / 1e6:.1f} MB"
    )


# ---------------------------------------------------------------- scans


def _plans(path: str, partitions: int, times: Times) -> None:
    day, key = f"2024-{partitions // 2:05d}", 7 * ROWS_PER_FILE + 5
    for what, predicate in (
        ("one partition", pc.field("day") == day),
        ("one partition and key", (pc.field("day") == day) & (pc.field("id") == key)),
        ("one key in all partitions", pc.field("id") == key),
        ("a range of a value", pc.field("customer") < 0),
        ("an eighth of the partitions", pc.field("day") < f"2024-{partitions // 8:05d}"),
    ):
        with _timed() as took:
            io = CountingFileIO(LocalFileIO())
            table = Table.open(path, io=io)
            splits = table.plan(predicate)
        files = sum(len(split.files) for split in splits)
        read = sum(kind == "read" for kind, _ in io.requests)
        more = f"   {files:,} files in {len(splits):,} splits; {read} files read, {_listings(io)} listed"
        times.tell(f"plan, new process: {what}", *took(), LIMIT_S, more)
    with _timed() as took:
        table = Table.open(path)
        splits = table.plan()
    times.tell("plan, new process: everything", *took(), None, f"   {sum(len(s.files) for s in splits):,} files")


def _listings(io: CountingFileIO) -> int:
    return sum(kind == "list" for kind, _ in io.requests)


# ---------------------------------------------------------------- batches


def _batches(path: str, partitions: int, count: int, times: Times) -> None:
    work = tempfile.mkdtemp(prefix="large-table-lookup-")
    io = CountingFileIO(LocalFileIO())
    with _timed() as took:
        table = Table.open(path, io=io)
        commit = table.new_commit(random_uuid())
        _commit_rows(table, commit, 1, partitions, work)
    more = f"   {sum(kind == 'read' for kind, _ in io.requests)} files read, {_listings(io)} listed"
    times.tell("a small batch, new process", *took(), None, more)
    seconds: list[tuple[float, float]] = []
    for identifier in range(2, count + 2):
        with _timed() as took:
            _commit_rows(table, commit, identifier, partitions, work)
        seconds.append(took())
    times.tell(f"a small batch of a running process, median of {count}", *sorted(seconds)[count // 2], LIMIT_S)
    times.tell("                                    slowest", *max(seconds), LIMIT_S)
    packer = FilePacker()
    for what in ("first batch", "later ones"):
        with _timed() as took:
            data = pickle.dumps(packer.pack(commit.state.live_files()))
        times.tell(f"live files for the tasks of a batch, {what}", *took(), None, f"   {len(data) / 1e6:.1f} MB")
    with _timed() as took:
        pickle.loads(data).of(BucketId(_partition(0), 0))
    times.tell("live files in a task", *took())
    shutil.rmtree(work)


def _commit_rows(table: Table, commit: TableCommit, number: int, partitions: int, work: str) -> None:
    """A hundred rows of the last three days."""
    live = commit.refresh().live_files()
    environment = WriterEnvironment(work)
    messages = []
    for bucket, rows in table.assign(_rows(number, partitions), live, environment).buckets.items():
        writer = table.bucket_writer(bucket, live.of(bucket), environment)
        writer.write(rows)
        messages.append(writer.prepare_commit())
    commit.commit(number, messages, {"tidemark.batch": str(number)}, started_ms=now_ms())


def _rows(number: int, partitions: int) -> pa.Table:
    ids = list(range(number * 100, number * 100 + 100))
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "day": pa.array([f"2024-{partitions - 1 - i % 3:05d}" for i in ids]),
            "customer": pa.array(ids, pa.int64()),
            "status": pa.array(["new"] * len(ids)),
            "total": pa.array([None] * len(ids), pa.decimal128(12, 2)),
            "placed_at": pa.array([None] * len(ids), pa.timestamp("ms")),
            "updated_at": pa.array([None] * len(ids), pa.timestamp("us")),
            "note": pa.array(["a small batch"] * len(ids)),
            VALUE_KIND: pa.array([0] * len(ids), pa.int8()),
        }
    )


@contextmanager
def _timed() -> Iterator[Callable[[], tuple[float, float]]]:
    """Gives a function that says, behind the block, how long it took, on the clock and on processors."""
    started, started_cpu = time.perf_counter(), time.process_time()
    ended: list[tuple[float, float]] = []
    yield lambda: ended[0]
    ended.append((time.perf_counter() - started, time.process_time() - started_cpu))


if __name__ == "__main__":
    main()
