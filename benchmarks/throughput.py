"""Kafka to Paimon, end to end: events per second, and where the time goes.

    python -m benchmarks.throughput [--events N] [--passes N] [--batch N] [--keys N] [--buckets N] [--producer lookup]
                                   [--mode upsert,upsert:none,append:log,append:skip] [--reader direct,spark]
                                   [--master local,standalone]

Starts a broker on loopback, fills a topic, runs the pipeline over it in batches and prints one line per batch. The
first batches carry the start of Spark's workers and the run under an unknown table; the last half counts. The JVM
compiles Spark for minutes, which takes a tenth of the cores. So one million events show the first minute of a service.
The second pass over ten million, by a new pipeline into a new table in the same JVM, shows how it runs from then on.
"read" to "write" are milliseconds inside tasks, summed over tasks that run side by side.

Modes and readers take turns, pass after pass. ``upsert:none`` has another changelog producer than ``--producer`` says;
``append`` is an event log (``on_change: log``), ``append:skip`` leaves updates and deletes out. Events are those that
were read, rows or not. ``standalone`` is a cluster on loopback with as many workers of one core each as ``local`` has
cores. CPU seconds are those of all processes with the broker: they show what a busy machine hides.

``--rows-before`` asks whether a batch costs the same in a large table: the table has so many rows before the pipeline
starts. Several sizes take turns. All get the same events, whose ``--keys`` are evenly distributed among the rows.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import groupby, product
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession

from benchmarks.events import COLUMN_TYPES, TOPIC, events
from benchmarks.filled_tables import fill_table
from benchmarks.standalone_cluster import ON_LOOPBACK, standalone_cluster
from benchmarks.topic_filling import fill
from pipelines.batch.batch_report import BatchObserver, BatchReport
from pipelines.config.config import PipelineConfig
from pipelines.prepared import prepared
from pipelines.query import PipelineQuery
from pipelines.spark.session import open_session
from tests.stack.kafka import KafkaBroker

YAML_DEFAULTS = {"version": 1, "name": "bench"}


def fill_topic(broker: KafkaBroker, count: int, keys: int, partitions: int, apart: int = 1) -> int:
    """Produce the events; returns their bytes."""
    return fill(broker, TOPIC, partitions, events(count, keys, apart=apart))


def rule(mode: str, buckets: int, producer: str) -> Mapping[str, Any]:
    """The settings of the table rule besides the source table; events are inserts, updates and deletes."""
    kind, _, more = mode.partition(":")
    match kind:
        case "upsert":
            return {"options": {"bucket": str(buckets), "changelog-producer": more or producer}}
        case "append":
            return {"mode": "append", "on_change": more or "log", "options": {"bucket": "-1"}}
    raise SystemExit(f"--mode {mode}: it is upsert or append, and behind a colon the producer, or log or skip")


def pipeline(
    root: Path,
    broker: KafkaBroker,
    batch: int,
    rule: Mapping[str, object],
    spark: Mapping[str, str],
    trigger: Mapping[str, object] = {"available_now": True},
    more: Mapping[str, object] = {},
) -> PipelineConfig:
    """One table from the topic; ``more`` goes under ``source.kafka``."""
    return PipelineConfig.model_validate(
        {
            **YAML_DEFAULTS,
            "source": {
                "kafka": {
                    "bootstrap_servers": broker.bootstrap_servers,
                    "topics": [TOPIC],
                    "max_records_per_batch": batch,
                    **more,
                },
                "format": "debezium-json",
            },
            "trigger": trigger,
            "checkpoint": f"{root}/checkpoint",
            "catalog": {"warehouse": f"{root}/warehouse"},
            "spark": spark,
            "tables": [
                {
                    "match": {"table": "orders"},
                    "into": "lake.orders",
                    "columns": {"types": COLUMN_TYPES},
                    **rule,
                }
            ],
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--batch", type=int, default=50_000)
    parser.add_argument("--target", default="10s", help="trigger.target_batch_duration; several with commas take turns")
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--buckets", type=int, default=2)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--producer", default="lookup")
    parser.add_argument(
        "--mode",
        default="upsert",
        help="upsert[:PRODUCER] or append[:log|:skip]; several with commas between them take turns, pass after pass",
    )
    parser.add_argument(
        "--reader", default="auto", help="source.kafka.reader; several with commas between them take turns"
    )
    parser.add_argument("--rows-before", default="0", help="rows of the table before the start; several take turns")
    parser.add_argument("--master", default="local", help="local, standalone, or both with a comma between them")
    args = parser.parse_args()
    sizes = [int(rows) for rows in args.rows_before.split(",")]
    apart = max(1, max(sizes) // args.keys)
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        root = Path(directory)
        broker = KafkaBroker(root / "kafka")
        broker.start()
        with ExitStack() as stack:
            stack.callback(broker.stop)
            sparks = {"local": {"master": f"local[{args.cores}]"}}
            if "standalone" in args.master:
                url = stack.enter_context(standalone_cluster(root / "cluster", args.cores))
                sparks["standalone"] = {"master": url, **ON_LOOPBACK}
            size = fill_topic(broker, args.events, args.keys, args.partitions, apart)
            print(
                f"{args.events} events, {size / args.events:.0f} bytes each, {args.keys} keys, {args.buckets} buckets"
            )
            run(list(_passes(args, root, broker, sparks, sizes)))


def _passes(
    args: argparse.Namespace,
    root: Path,
    broker: KafkaBroker,
    sparks: Mapping[str, Mapping[str, str]],
    sizes: Sequence[int],
) -> Iterator[tuple[str, PipelineConfig]]:
    """The title and the pipeline of each pass, in turn; makes the tables that have rows before."""
    turns = product(
        range(1, args.passes + 1),
        args.master.split(","),
        args.mode.split(","),
        args.reader.split(","),
        args.target.split(","),
        sizes,
    )
    for number, master, mode, reader, target, rows in turns:
        # Spark's reader cannot adapt its batches: Tidemark refuses a target for it.
        adapts = {} if reader == "spark" else {"target_batch_duration": target}
        title = " ".join([master, mode, reader, *adapts.values(), *([f"{rows} rows"] if rows else [])])
        home = root / f"pass-{number}-{title}".replace(":", "-").replace(" ", "-")
        settings = rule(mode, args.buckets, args.producer)
        if rows:
            fill_table(home / "warehouse" / "lake.db" / "orders", settings["options"], rows, max(sizes) // rows)
        trigger = {"available_now": True, **adapts}
        yield title, pipeline(home, broker, args.batch, settings, sparks[master], trigger, {"reader": reader})


def run(passes: Sequence[tuple[str, PipelineConfig]]) -> None:
    """Run one pipeline after the other, each until it is drained, and compare them.

    Neighbours with one master share a process and its JVM.
    """
    steady: defaultdict[str, list[Steady]] = defaultdict(list)
    for _, group in groupby(passes, key=lambda one: one[1].spark.master):
        of_master = list(group)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            for (mode, _), found in zip(of_master, process.submit(run_in_turn, of_master).result(), strict=True):
                steady[mode].append(found)
    first = next(iter(steady.values()))
    for mode, of_mode in steady.items():
        compared = zip(of_mode, first, strict=True)
        print(f"{mode:16}", "; ".join(f"{one.told} ({one.rate / other.rate:.2f} times)" for one, other in compared))


def run_in_turn(passes: Sequence[tuple[str, PipelineConfig]]) -> list[Steady]:
    """Run the pipelines in one JVM, in a process that the one with the broker has started."""
    spark = open_session([config for _, config in passes])
    found = []
    for number, (mode, config) in enumerate(passes, start=1):
        print(f"pass {number} of {len(passes)}: {mode}")
        found.append(run_pass(spark, config))
    spark.stop()
    return found


@dataclass(frozen=True, slots=True)
class Steady:
    """The last half of a pass."""

    events: int
    wall_s: float
    cpu_s: Mapping[str, float]
    """By kind of process."""

    @property
    def rate(self) -> float:
        return self.events / self.wall_s

    @property
    def told(self) -> str:
        cpu_s = sum(seconds for kind, seconds in self.cpu_s.items() if kind != "others")
        return f"{self.rate:.0f} events/s, {self.events / cpu_s:.0f} a CPU second"


def cpu_seconds() -> Counter[str]:
    """CPU seconds of this process and all others of the benchmark, by kind."""
    found: Counter[str] = Counter()
    for process in psutil.Process(os.getppid()).children(recursive=True):
        with suppress(psutil.Error):
            kind = "driver" if process.pid == os.getpid() else _kind(" ".join(process.cmdline()))
            found[kind] += sum(process.cpu_times()[:2])
    return found


_KINDS = {
    "SparkSubmit": "JVM",
    "CoarseGrainedExecutorBackend": "executors",
    "spark.deploy": "cluster",
    "daemon": "workers",
    "kafka": "broker",
}
"""Kinds of processes by words in their commands."""


def _kind(command: str) -> str:
    return next((kind for sign, kind in _KINDS.items() if sign in command), "others")


class Rates(BatchObserver):
    """Prints each batch and keeps its (records, seconds since the batch before)."""

    def __init__(self) -> None:
        self.of_batches: list[tuple[int, float]] = []
        self.cpu_s = [cpu_seconds()]
        """Before the first batch, and after each."""
        self._ended_at = time.perf_counter()

    def end(self, report: BatchReport) -> None:
        now = time.perf_counter()
        wall = now - self._ended_at
        self._ended_at = now
        self.of_batches.append((report.record_count, wall))
        self.cpu_s.append(cpu_seconds())
        rate = report.record_count / wall
        print(f"batch {report.batch_id:3d} {report.record_count:7d} events {wall:6.3f} s {rate:8.0f}/s, ms: ", end="")
        print(_milliseconds(report.seconds), "| in tasks", _milliseconds(report.task_seconds))


def run_pass(spark: SparkSession, config: PipelineConfig) -> Steady:
    """Run the pipeline until it is drained and print each batch and the steady state."""
    rates = Rates()
    query = PipelineQuery(spark, prepared(config), True, [rates])
    while query.is_running:
        query.poll()
        time.sleep(0.05)
    query.raise_failure()
    half = len(rates.of_batches) // 2
    last = rates.of_batches[half:]
    cpu_s = {kind: seconds - rates.cpu_s[half][kind] for kind, seconds in rates.cpu_s[-1].items()}
    steady = Steady(sum(n for n, _ in last), sum(w for _, w in last), cpu_s)
    median = statistics.median(w for _, w in last)
    print(
        f"steady state over the last {len(last)} batches: {steady.told}, median batch {median:.3f} s, us/event: ",
        end="",
    )
    print(", ".join(f"{kind} {seconds / steady.events * 1e6:.1f}" for kind, seconds in cpu_s.items()))
    return steady


def _milliseconds(seconds: Mapping[str, float]) -> str:
    return " ".join(f"{name} {value * 1000:.0f}" for name, value in seconds.items())


if __name__ == "__main__":
    main()
