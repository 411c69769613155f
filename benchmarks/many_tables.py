"""The same records over one table and over many: what a batch costs for each table that it touches.

    python -m benchmarks.many_tables [--tables 1,10,100,500] [--records 20000] [--batches 5] [--producer lookup]
                                     [--rounds 1] [--latency-ms 0] [--one-job] [--profile]

Brings batches in through ``process_batch`` with all tasks in this process, without Spark. The first batches make the
tables and are not counted. CPU seconds tell what a busy machine hides; requests and syncs per table and batch do not
depend on the machine at all. With ``--latency-ms`` the warehouse is in memory and each request takes so long, as on
object storage: the wall time then tells how many requests wait for each other. The numbers of tables take turns, round
after round.
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
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from benchmarks.events import COLUMN_TYPES, events
from paimon_table.catalog.filesystem import FilesystemCatalog
from paimon_table.storage.counting_io import CountingFileIO
from paimon_table.storage.file_io import FileIO, LocalFileIO
from paimon_table.storage.memory_io import MemoryFileIO
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
"""The first makes the tables, the second is the first one that goes on from rows."""
SLOTS = 2


@dataclass(slots=True)
class Cost:
    """What the counted batches of one number of tables took together."""

    batches: int = 0
    records: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    syncs: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    steps_s: Counter[str] = field(default_factory=Counter)

    def add(self, other: Cost) -> None:
        for name in ("batches", "records", "wall_s", "cpu_s", "syncs"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.requests += other.requests
        self.steps_s += other.steps_s

    def line(self, tables: int) -> str:
        per_table = self.batches * tables
        asked = " ".join(f"{kind} {count / per_table:.1f}" for kind, count in sorted(self.requests.items()))
        steps = " ".join(f"{step} {1000 * seconds / self.batches:.0f}" for step, seconds in self.steps_s.items())
        return (
            f"{tables:>6} {1000 * self.wall_s / self.batches:>9.0f} {1000 * self.cpu_s / self.batches:>9.0f}"
            f" {1000 * self.cpu_s / per_table:>9.1f} {self.records / self.cpu_s:>9,.0f}"
            f" {sum(self.requests.values()) / per_table:>8.1f} {self.syncs / per_table:>6.1f}   {asked}\n"
            f"{'':>6} steps (ms): {steps}"
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


def config_of(directory: Path, producer: str, store: str = "") -> PipelineConfig:
    return PipelineConfig.model_validate(
        {
            "version": 1,
            "name": "bench",
            "source": {"files": {"path": str(directory)}, "format": "debezium-json"},
            "checkpoint": str(directory / "checkpoint"),
            "catalog": {"warehouse": store or str(directory / "warehouse")},
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
        rows: list[list[dict[str, object]]] = [[] for _ in range(tables)]
        for n in range(records):
            key, value = next(made)
            table = n % tables
            rows[table].append(
                {
                    "topic": f"bench.public.t{table:04d}",
                    "partition": 0,
                    "offset": batch * records + n,
                    "timestamp": 0,
                    "key": key,
                    "value": value.replace(b'"table":"orders"', b'"table":"t%04d"' % table),
                    "headers": None,
                }
            )
        flat = [row for of_table in rows for row in of_table]
        half = (len(flat) + 1) // 2
        yield [pa.RecordBatch.from_pylist(part, schema=RECORD_SCHEMA) for part in (flat[:half], flat[half:]) if part]


def measure(tables: int, args: argparse.Namespace, syncs: Syncs, profile: cProfile.Profile | None) -> Cost:
    with tempfile.TemporaryDirectory(prefix="many-tables-") as parent:
        directory = Path(parent)
        config = config_of(directory, args.producer, "s3://bench/warehouse" if args.latency_ms else "")
        storage: FileIO = MemoryFileIO() if args.latency_ms else LocalFileIO()
        io = CountingFileIO(storage)
        own = OwnTables(config, FilesystemCatalog(io, config.catalog.warehouse))
        pipeline = PipelineTables(config, "bench-user", own)
        quarantine = Quarantine(LocalFileIO(), str(directory / "quarantine"))
        settings = TaskSettings(DebeziumJsonDecoder(), SLOTS, str(directory / "lookup"), quarantine)
        compactions, cost = Compactions(), Cost()
        for number, records in enumerate(batches_of(tables, args.records, WARM_BATCHES + args.batches)):
            io.requests.clear()
            before = time.perf_counter(), time.process_time(), syncs.count
            reports: list[BatchReport] = []
            is_counted = number >= WARM_BATCHES
            io.latency_s = args.latency_ms / 1000 if is_counted else 0.0
            if is_counted and profile is not None:
                profile.enable()
            exchange = LocalExchange(records, is_one_job=args.one_job)
            process_batch(BatchRun(number), pipeline, settings, exchange, compactions, reports.append)
            compactions.wait()
            if is_counted and profile is not None:
                profile.disable()
            if is_counted:
                wall_s, cpu_s = time.perf_counter() - before[0], time.process_time() - before[1]
                asked = Counter(kind for kind, _ in io.requests)
                steps = Counter(dict(reports[0].seconds))
                cost.add(Cost(1, args.records, wall_s, cpu_s, syncs.count - before[2], asked, steps))
        compactions.close()
    return cost


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="1,10,100,500")
    parser.add_argument("--records", type=int, default=20_000, help="of one batch")
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--producer", default="lookup")
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--one-job", action="store_true", help="as the shuffle of a cluster does it")
    parser.add_argument("--profile", action="store_true", help="where the driver's thread spends its time")
    args = parser.parse_args(arguments)
    counts = [int(text) for text in args.tables.split(",")]
    costs = {tables: Cost() for tables in counts}
    syncs, profile = Syncs(), cProfile.Profile() if args.profile else None
    for _ in range(args.rounds):
        for tables in counts:
            costs[tables].add(measure(tables, args, syncs, profile))
    print(f"{args.records:,} records a batch, changelog-producer {args.producer}, {args.latency_ms:g} ms a request")
    print("tables  wall ms    CPU ms  CPU/table  rec/CPU s  requests  syncs   per table and batch")
    for tables, cost in costs.items():
        print(cost.line(tables))
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)


if __name__ == "__main__":
    main()
