"""The same records over one table and over many: the cost of a batch for each table that it touches.

    python -m benchmarks.many_tables [--on disk,s3] [--tables 1,10,100,500] [--records 20000] [--batches 3] [--rounds 1]
                                     [--latency-ms 50] [--producer lookup] [--requests] [--one-job] [--profile]

Brings batches in through ``process_batch`` with all tasks in this process, without Spark. The first batches make the
tables and are not counted; "first s" is what the very first one took. CPU seconds show what a busy machine hides;
requests and syncs per table and batch do not depend on the machine at all. ``s3`` is a server on loopback that delays
each answer, in a process of its own: its CPU seconds do not count. "beside" compares a number of tables with the first
one of the same run. The numbers of tables take turns, round after round. ``--requests`` prints the requests of a table
to the store in a batch.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from benchmarks.events import COLUMN_TYPES, events
from benchmarks.slow_store import SlowStore, kind_of_file, slow_store
from paimon_table.catalog.filesystem import FilesystemCatalog
from paimon_table.storage.counting_io import CountingFileIO
from paimon_table.storage.file_io import LocalFileIO, file_io_for
from pipelines.batch.batch import process_batch
from pipelines.batch.batch_report import BatchReport
from pipelines.batch.compactions import Compactions
from pipelines.batch.local_exchange import LocalExchange
from pipelines.batch.plan import BatchRun, TaskSettings
from pipelines.config.config import PipelineConfig
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.tables import PipelineTables
from sinks.quarantine import Quarantine
from sources.changes import RECORD_SCHEMA
from sources.debezium_json.decoder import DebeziumJsonDecoder

WARM_BATCHES = 2
"""The first creates the tables; the second is the first one that continues from rows."""
SLOTS = 2
DECODED_AT_ONCE = 10_000
"""Records, as readers of Kafka hand them on."""


@dataclass(slots=True)
class Cost:
    """The total of the counted batches for one number of tables."""

    tables: int
    batches: int = 0
    records: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    syncs: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    steps_s: Counter[str] = field(default_factory=Counter)
    first_s: float = 0.0
    """The time of the batch that created the tables, in the last round; it is not counted."""

    def add(self, other: Cost) -> None:
        for name in ("batches", "records", "wall_s", "cpu_s", "syncs"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.first_s = other.first_s or self.first_s
        self.requests += other.requests
        self.steps_s += other.steps_s

    @property
    def per_cpu_s(self) -> float:
        return self.records / self.cpu_s

    @property
    def per_s(self) -> float:
        return self.records / self.wall_s

    def line(self, first: Cost) -> str:
        per_table = self.batches * self.tables
        steps = " ".join(f"{step} {1000 * seconds / self.batches:.0f}" for step, seconds in self.steps_s.items())
        return (
            f"{self.tables:>6} {self.first_s:>7.1f}"
            f" {1000 * self.wall_s / self.batches:>8.0f} {1000 * self.cpu_s / self.batches:>8.0f}"
            f" {1000 * self.cpu_s / per_table:>10.1f} {self.per_cpu_s:>10,.0f} {self.per_cpu_s / first.per_cpu_s:>7.2f}"
            f" {self.per_s:>9,.0f} {self.per_s / first.per_s:>7.2f} {sum(self.requests.values()) / per_table:>9.1f}"
            f" {self.syncs / per_table:>6.1f}   {steps}"
        )


TITLES = (
    "tables first s  wall ms   CPU ms  CPU ms/table  rec/CPU s  beside     rec/s  beside  requests  syncs   steps (ms)"
)


class Syncs:
    """Counts the calls of ``os.fsync`` in this process."""

    def __init__(self) -> None:
        self.count = 0
        self._sync = os.fsync
        os.fsync = self._counted

    def _counted(self, descriptor: int) -> None:
        self.count += 1
        self._sync(descriptor)


def config_of(directory: Path, producer: str, store: SlowStore | None) -> PipelineConfig:
    warehouse = str(directory / "warehouse") if store is None else f"s3://bench/{directory.name}"
    return PipelineConfig.model_validate(
        {
            "version": 1,
            "name": "bench",
            "source": {"files": {"path": str(directory)}, "format": "debezium-json"},
            "checkpoint": str(directory / "checkpoint"),
            "catalog": {"warehouse": warehouse, "options": {} if store is None else store.options},
            "defaults": {"options": {"bucket": "1", "changelog-producer": producer}},
            "tables": [
                {
                    "match": {"schema": "public", "table": "(.*)"},
                    "into": "lake.{table}",
                    "columns": {"types": COLUMN_TYPES},
                }
            ],
        }
    )


def batches_of(tables: int, records: int, count: int) -> Iterator[list[pa.RecordBatch]]:
    """For each batch what its decode tasks read: topic after topic, one for each table."""
    made = events(records * count, keys=10 * records)
    for batch in range(count):
        rows: list[list[tuple[int, bytes, bytes]]] = [[] for _ in range(tables)]
        for n in range(records):
            key, value = next(made)
            table = n % tables
            named = value.replace(b'"table":"orders"', b'"table":"t%04d"' % table)
            rows[table].append((batch * records + n, key, named))
        topics = [f"bench.public.t{table:04d}" for table, of_table in enumerate(rows) for _ in of_table]
        offsets, keys, values = zip(*(row for of_table in rows for row in of_table), strict=True)
        zeros = [0] * records
        given = {"topic": topics, "partition": zeros, "offset": offsets, "timestamp": zeros, "key": keys}
        given |= {"value": values, "headers": [None] * records}
        whole = pa.table({f.name: pa.array(given[f.name], f.type) for f in RECORD_SCHEMA}, schema=RECORD_SCHEMA)
        at_once = min(DECODED_AT_ONCE, -(-records // SLOTS))
        yield whole.to_batches(max_chunksize=at_once)


def measure(
    tables: int, args: argparse.Namespace, syncs: Syncs, profile: cProfile.Profile | None, store: SlowStore | None
) -> Cost:
    with tempfile.TemporaryDirectory(prefix="many-tables-") as parent:
        directory = Path(parent)
        config = config_of(directory, args.producer, store)
        storage, warehouse = file_io_for(config.catalog.warehouse, config.catalog.options)
        io = CountingFileIO(storage)
        own = OwnTables(config, FilesystemCatalog(io, warehouse))
        pipeline = PipelineTables(config, "bench-user", own)
        quarantine = Quarantine(LocalFileIO(), str(directory / "quarantine"))
        settings = TaskSettings(DebeziumJsonDecoder(), SLOTS, str(directory / "lookup"), quarantine)
        compactions, cost = Compactions(), Cost(tables)
        for number, records in enumerate(batches_of(tables, args.records, WARM_BATCHES + args.batches)):
            is_counted = number >= WARM_BATCHES
            io.requests.clear()
            if store is not None:
                store.requests()
            before = time.perf_counter(), time.process_time(), syncs.count
            reports: list[BatchReport] = []
            if is_counted and profile is not None:
                profile.enable()
            exchange = LocalExchange(records, is_one_job=args.one_job)
            process_batch(BatchRun(number), pipeline, settings, exchange, compactions, reports.append)
            compactions.wait()
            if is_counted and profile is not None:
                profile.disable()
            wall_s, cpu_s = time.perf_counter() - before[0], time.process_time() - before[1]
            if number == 0:
                cost.first_s = wall_s
            if is_counted:
                if store is None:
                    asked = Counter(f"{kind} {kind_of_file(path)}" for kind, path in io.requests)
                else:
                    asked = store.requests()
                steps = Counter(dict(reports[0].seconds))
                cost.add(Cost(tables, 1, args.records, wall_s, cpu_s, syncs.count - before[2], asked, steps))
        compactions.close()
    return cost


def compare(on: str, args: argparse.Namespace, syncs: Syncs, profile: cProfile.Profile | None) -> None:
    """Measure all numbers of tables on one kind of storage and print them side by side."""
    counts = [int(text) for text in args.tables.split(",")]
    costs = {tables: Cost(tables) for tables in counts}
    with ExitStack() as stack:
        store = None if on == "disk" else stack.enter_context(slow_store(args.latency_ms))
        for _ in range(args.rounds):
            for tables in counts:
                costs[tables].add(measure(tables, args, syncs, profile, store))
    latency = "" if store is None else f", {args.latency_ms:g} ms a request"
    print(f"on {on}{latency}: batches of {args.records:,} records, changelog-producer {args.producer}\n{TITLES}")
    for cost in costs.values():
        print(cost.line(costs[counts[0]]))
    last = costs[counts[-1]]
    if args.requests:
        print(f"requests per table and batch, {last.tables} tables:")
        for kind, count in sorted(last.requests.items()):
            print(f"{count / last.batches / last.tables:>7.2f} {kind}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", default="disk,s3")
    parser.add_argument("--tables", default="1,10,100,500")
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--batches", type=int, default=3, help="counted batches, behind those that warm up")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--latency-ms", type=float, default=50.0, help="of the store on s3")
    parser.add_argument("--producer", default="lookup")
    parser.add_argument("--requests", action="store_true")
    parser.add_argument("--one-job", action="store_true", help="decode and write in one job, as Spark's shuffle does")
    parser.add_argument("--profile", action="store_true", help="print where the Python time goes; changes the times")
    args = parser.parse_args(arguments)
    syncs, profile = Syncs(), cProfile.Profile() if args.profile else None
    for on in args.on.split(","):
        compare(on, args, syncs, profile)
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)


if __name__ == "__main__":
    main()
