"""Kafka to Paimon, end to end: events per second, and where the time goes.

    python -m benchmarks.throughput [--events N] [--passes N] [--batch N] [--keys N] [--buckets N] [--producer lookup]
                                   [--mode upsert,append]

Starts a broker on loopback, fills a topic, runs the pipeline over it in batches and prints one line per batch. The
first batches carry the start of Spark's workers and the run under an unknown table; the last half counts. The JVM goes
on compiling Spark for minutes, which takes a tenth of the cores: one million events show the first minute of a service,
and the second pass over ten million, by a new pipeline into a new table in the same JVM, how it runs from then on.
"read" to "write" are milliseconds inside tasks, summed over tasks that run side by side.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.events import COLUMN_TYPES, TOPIC, events
from pipelines.batch.batch_report import BatchReport
from pipelines.config.config import PipelineConfig
from pipelines.prepared import prepared
from pipelines.query import PipelineQuery
from pipelines.spark.session import open_session
from tests.stack.kafka import KafkaBroker

YAML_DEFAULTS = {"version": 1, "name": "bench"}


def fill_topic(broker: KafkaBroker, count: int, keys: int, partitions: int) -> int:
    """Produce the events; returns their bytes."""
    from kafka import KafkaProducer
    from kafka.admin import KafkaAdminClient, NewTopic

    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    admin.create_topics([NewTopic(TOPIC, partitions, 1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=50, batch_size=1 << 20)
    total = 0
    for key, value in events(count, keys):
        total += len(value)
        producer.send(TOPIC, value=value, key=key)
    producer.flush()
    producer.close()
    return total


RULES: Mapping[str, Mapping[str, object]] = {
    "upsert": {},
    "append": {"mode": "append", "on_change": "log"},
}
"""What the table rule says beside the source table; events are inserts, updates and deletes."""


def pipeline(
    root: Path, broker: KafkaBroker, batch: int, options: Mapping[str, str], mode: str, cores: int
) -> PipelineConfig:
    return PipelineConfig.model_validate(
        {
            **YAML_DEFAULTS,
            "source": {
                "kafka": {
                    "bootstrap_servers": broker.bootstrap_servers,
                    "topics": [TOPIC],
                    "max_records_per_batch": batch,
                },
                "format": "debezium-json",
            },
            "trigger": {"available_now": True},
            "checkpoint": f"{root}/checkpoint",
            "catalog": {"warehouse": f"{root}/warehouse"},
            "spark": {"master": f"local[{cores}]"},
            "tables": [
                {
                    "match": {"table": "orders"},
                    "into": "lake.orders",
                    "columns": {"types": COLUMN_TYPES},
                    "options": options,
                    **RULES[mode],
                }
            ],
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--batch", type=int, default=50_000)
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--buckets", type=int, default=2)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--producer", default="lookup")
    parser.add_argument(
        "--mode",
        default="upsert",
        help="of the table rule: upsert or append; several with commas between them take turns, pass after pass",
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        root = Path(directory)
        broker = KafkaBroker(root / "kafka")
        broker.start()
        try:
            size = fill_topic(broker, args.events, args.keys, args.partitions)
            print(
                f"{args.events} events, {size / args.events:.0f} bytes each, {args.keys} keys, {args.buckets} buckets"
            )
            upsert = {"bucket": str(args.buckets), "changelog-producer": args.producer}
            configs = [
                pipeline(
                    root / f"pass-{number}-{mode}",
                    broker,
                    args.batch,
                    upsert if mode == "upsert" else {"bucket": "-1"},
                    mode,
                    args.cores,
                )
                for number in range(1, args.passes + 1)
                for mode in args.mode.split(",")
            ]
            run(configs)
        finally:
            broker.stop()


def run(configs: Sequence[PipelineConfig]) -> None:
    """Run one pipeline after the other in one JVM, each until it is drained."""
    spark = open_session(configs)
    for number, config in enumerate(configs, start=1):
        mode = config.tables[0].mode
        print(f"pass {number} of {len(configs)}: {mode}")
        run_pass(spark, config)
    spark.stop()


class Rates:
    """A ``BatchObserver`` that prints each batch and keeps its (records, seconds since the batch before)."""

    def __init__(self) -> None:
        self.of_batches: list[tuple[int, float]] = []
        self._ended_at = time.perf_counter()

    def begin(self, batch_id: int) -> None:
        """Time runs from the end of the batch before."""

    def end(self, report: BatchReport) -> None:
        now = time.perf_counter()
        wall = now - self._ended_at
        self._ended_at = now
        self.of_batches.append((report.record_count, wall))
        rate = report.record_count / wall
        print(f"batch {report.batch_id:3d} {report.record_count:7d} events {wall:6.3f} s {rate:8.0f}/s, ms: ", end="")
        print(_milliseconds(report.seconds), "| in tasks", _milliseconds(report.task_seconds))


def run_pass(spark: SparkSession, config: PipelineConfig) -> None:
    """Run the pipeline until it is drained and print each batch and the steady state."""
    rates = Rates()
    query = PipelineQuery(spark, prepared(config), True, [rates])
    while query.is_running:
        query.poll()
        time.sleep(0.05)
    query.raise_failure()
    steady = rates.of_batches[len(rates.of_batches) // 2 :]
    count, wall = sum(n for n, _ in steady), sum(w for _, w in steady)
    median = statistics.median(w for _, w in steady)
    print(f"steady state over the last {len(steady)} batches: {count / wall:.0f} events/s, median batch {median:.3f} s")


def _milliseconds(seconds: Mapping[str, float]) -> str:
    return " ".join(f"{name} {value * 1000:.0f}" for name, value in seconds.items())


if __name__ == "__main__":
    main()
