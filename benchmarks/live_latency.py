"""How old a record is when its row can be read, while records keep coming.

    python -m benchmarks.live_latency [--rate 500] [--seconds 30] [--passes 2] [--interval 100ms]
                                      [--fetch-wait DEFAULT,500] [--mode upsert]

Starts a broker on loopback, sends events at a steady rate and runs a pipeline over them for some seconds, with one
setting of ``fetch.max.wait.ms`` after the other in one JVM, pass after pass. ``age`` is the time from the newest record
of a batch to the snapshot with its rows. ``read`` is how long the slowest reads waited for Spark's records, summed over
parallel tasks. The first third of each pass carries the start and does not count.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.events import TOPIC, events
from benchmarks.throughput import pipeline, rule
from pipelines.batch.batch_report import BatchObserver, BatchReport
from pipelines.config.config import PipelineConfig
from pipelines.prepared import prepared
from pipelines.query import PipelineQuery
from pipelines.spark.session import open_session
from tests.stack.kafka import KafkaBroker

MAX_RATE = 20_000
MAX_SECONDS = 600


class Ages(BatchObserver):
    """Keeps (age of the newest record in s, time of reading in s) of each batch."""

    def __init__(self) -> None:
        self.found: list[tuple[float, float]] = []

    def end(self, report: BatchReport) -> None:
        if report.newest_s:
            age_s = time.time() - max(report.newest_s.values())
            self.found.append((age_s, report.task_seconds.get("read", 0.0)))


def send(broker: KafkaBroker, rate: int, is_over: threading.Event) -> None:
    """Produce ``rate`` events a second, evenly, until stopped; at most for ``MAX_SECONDS``."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0)
    began_s = time.monotonic()
    for number, (key, value) in enumerate(events(rate * MAX_SECONDS, 100_000)):
        wait_s = began_s + number / rate - time.monotonic()
        if is_over.wait(wait_s) if wait_s > 0 else is_over.is_set():
            break
        producer.send(TOPIC, value=value, key=key)
    producer.close()


def live(root: Path, broker: KafkaBroker, mode: str, interval: str, fetch_wait: str) -> PipelineConfig:
    """The pipeline at an interval, from the newest record on, with one wait of Kafka's fetches."""
    wait = {} if fetch_wait == "DEFAULT" else {"options": {"fetch.max.wait.ms": fetch_wait}}
    more = {"start": "latest", **wait}
    return pipeline(root, broker, 50_000, rule(mode, 2, "lookup"), {"master": "local[2]"}, {"interval": interval}, more)


def run_pass(spark: SparkSession, config: PipelineConfig, seconds: int) -> Sequence[tuple[float, float]]:
    """(age, time of reading) of the batches of the last two thirds of a pass."""
    ages = Ages()
    query = PipelineQuery(spark, prepared(config), False, [ages])
    until_s = time.monotonic() + seconds
    while query.is_running:
        if time.monotonic() >= until_s:
            query.request_stop()
        query.poll()
        time.sleep(0.1)
    query.close()
    query.raise_failure()
    return ages.found[len(ages.found) // 3 :]


def told(found: Sequence[tuple[float, float]]) -> str:
    ages, reads = [age for age, _ in found], [read for _, read in found]
    slow = statistics.quantiles(ages, n=20)[-1]
    return (
        f"{len(found)} batches, age median {statistics.median(ages):.3f} s, 95 % {slow:.3f} s,"
        f" read median {statistics.median(reads):.3f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=500)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--interval", default="100ms")
    parser.add_argument("--fetch-wait", default="DEFAULT,500", help="values of fetch.max.wait.ms that take turns")
    parser.add_argument("--mode", default="upsert", help="as for benchmarks.throughput")
    args = parser.parse_args()
    waits = args.fetch_wait.split(",")
    if not 0 < args.rate <= MAX_RATE or args.passes * len(waits) * args.seconds > MAX_SECONDS / 2:
        parser.error(f"at most {MAX_RATE} events a second and {MAX_SECONDS // 2} seconds over all passes")
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        root = Path(directory)
        broker = KafkaBroker(root / "kafka")
        broker.start()
        is_over = threading.Event()
        sender = threading.Thread(target=send, args=(broker, args.rate, is_over), daemon=True)
        sender.start()
        try:
            configs = [
                live(root / f"{number}-{wait}", broker, args.mode, args.interval, wait)
                for number in range(args.passes)
                for wait in waits
            ]
            spark = open_session(configs)
            for number, config in enumerate(configs):
                print(f"fetch.max.wait.ms {waits[number % len(waits)]}: {told(run_pass(spark, config, args.seconds))}")
            spark.stop()
        finally:
            is_over.set()
            sender.join()
            broker.stop()


if __name__ == "__main__":
    main()
