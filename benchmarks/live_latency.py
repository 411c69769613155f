"""How long a record takes from Kafka to its row in the table, while records keep coming.

    python -m benchmarks.live_latency [--rates 500,2000] [--seconds 30] [--passes 2] [--interval 1ms]
                                      [--fetch-wait DEFAULT] [--mode upsert]

Starts a broker on loopback, sends events at a steady rate and runs a pipeline over them for some seconds, with one rate
and one ``fetch.max.wait.ms`` after the other in one JVM, pass after pass. The time of a record runs from its timestamp,
which the producer sets when it sends it, to the file of the first snapshot that has it: of the commit with the row, and
of the commit with its changelog. The first third of each pass carries the start and does not count.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from confluent_kafka import KafkaError, Message, Producer
from pyspark.sql import SparkSession

from benchmarks.events import TOPIC, events
from benchmarks.throughput import pipeline, rule
from paimon_table import CommitKind, Table
from pipelines.config.config import PipelineConfig
from pipelines.prepared import prepared
from pipelines.query import PipelineQuery
from pipelines.spark.session import open_session
from sinks.commit.positions import position_of
from tests.stack.kafka import KafkaBroker

MAX_RATE = 10_000
MAX_SECONDS = 600
SHARES = (50, 95, 99)


@dataclass(slots=True)
class Sent:
    """The acknowledged records: partition, offset and time in ms of each."""

    records: list[tuple[int, int, int]] = field(default_factory=list)

    def send(self, broker: KafkaBroker, rate: int, is_over: threading.Event) -> None:
        """Produce ``rate`` events a second, evenly, until stopped; at most for ``MAX_SECONDS``."""
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
        began_s = time.monotonic()
        for number, (key, value) in enumerate(events(rate * MAX_SECONDS, 100_000)):
            wait_s = began_s + number / rate - time.monotonic()
            if is_over.wait(wait_s) if wait_s > 0 else is_over.is_set():
                break
            producer.produce(TOPIC, value, key, on_delivery=self._note)
            producer.poll(0)
        producer.flush()

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.records.append((message.partition() or 0, message.offset() or 0, message.timestamp()[1]))


def times_ms(table: Path, name: str, sent: Sequence[tuple[int, int, int]], kind: CommitKind) -> Sequence[float]:
    """The milliseconds from each record to the file of the first snapshot of this kind that has it."""
    store = Table.open_for_reading(str(table)).snapshots
    written_ms: list[float] = []
    ends: list[Mapping[int, int]] = []
    for snapshot in store.between(None, None):
        position = position_of(snapshot, name)
        if position is not None and snapshot.commit_kind == kind:
            written_ms.append((table / "snapshot" / f"snapshot-{snapshot.id}").stat().st_mtime * 1000)
            ends.append(position.offsets_in(TOPIC))
    found: list[float] = []
    for partition in {partition for partition, _, _ in sent}:
        of_partition = [(offset, at_ms) for number, offset, at_ms in sent if number == partition]
        first = np.searchsorted([of.get(partition, 0) for of in ends], [o for o, _ in of_partition], side="right")
        found += [written_ms[i] - at_ms for i, (_, at_ms) in zip(first, of_partition, strict=True) if i < len(ends)]
    return found


def run_pass(spark: SparkSession, config: PipelineConfig, broker: KafkaBroker, rate: int, seconds: int) -> None:
    sent, is_over = Sent(), threading.Event()
    sender = threading.Thread(target=sent.send, args=(broker, rate, is_over), daemon=True)
    query = PipelineQuery(spark, prepared(config), False, [])
    sender.start()
    began_s = time.time()
    try:
        while query.is_running:
            if time.time() >= began_s + seconds:
                query.request_stop()
            query.poll()
            time.sleep(0.1)
        query.close()
        query.raise_failure()
    finally:
        is_over.set()
        sender.join()
    counted = [record for record in sent.records if record[2] / 1000 > began_s + seconds / 3]
    table = Path(str(config.catalog.warehouse)) / "lake.db" / "orders"
    for word, kind in (("row", CommitKind.APPEND), ("change", CommitKind.COMPACT)):
        found = times_ms(table, config.name, counted, kind)
        if found:
            shares = ", ".join(f"p{share} {np.percentile(found, share) / 1000:.3f}" for share in SHARES)
            print(f"  {word}: {len(found):,} records, {shares} s, slowest {max(found) / 1000:.3f} s", flush=True)


def live(root: Path, broker: KafkaBroker, mode: str, interval: str, fetch_wait: str) -> PipelineConfig:
    """The pipeline at an interval, from the newest record on, with one wait of Kafka's fetches."""
    wait = {} if fetch_wait == "DEFAULT" else {"options": {"fetch.max.wait.ms": fetch_wait}}
    more = {"start": "latest", **wait}
    return pipeline(root, broker, 50_000, rule(mode, 2, "lookup"), {"master": "local[2]"}, {"interval": interval}, more)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", default="500,2000", help="events per second, which take turns")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--interval", default="1ms")
    parser.add_argument("--fetch-wait", default="DEFAULT", help="values of fetch.max.wait.ms that take turns")
    parser.add_argument("--mode", default="upsert", help="as for benchmarks.throughput")
    args = parser.parse_args()
    waits = args.fetch_wait.split(",")
    rates = [int(rate) for rate in args.rates.split(",")]
    total_s = args.passes * len(waits) * len(rates) * args.seconds
    if not all(0 < rate <= MAX_RATE for rate in rates) or total_s > MAX_SECONDS:
        parser.error(f"at most {MAX_RATE} events a second and {MAX_SECONDS} seconds over all passes")
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        root = Path(directory)
        broker = KafkaBroker(root / "kafka")
        broker.start()
        broker.topics.create(TOPIC, 2)
        try:
            settings = [(rate, wait) for _ in range(args.passes) for rate in rates for wait in waits]
            configs = [
                live(root / str(number), broker, args.mode, args.interval, wait)
                for number, (_, wait) in enumerate(settings)
            ]
            spark = open_session(configs)
            for config, (rate, wait) in zip(configs, settings, strict=True):
                print(f"{rate} events/s, fetch.max.wait.ms {wait}:", flush=True)
                run_pass(spark, config, broker, rate, args.seconds)
            spark.stop()
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
