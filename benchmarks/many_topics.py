"""The same records over one table and over many, from Kafka through Spark: events per second, and who works for them.

    python -m benchmarks.many_topics [--tables 1,10,100] [--events 1000000] [--batch 50000] [--passes 1]
                                     [--keys 200000] [--producer lookup] [--latency-ms 0]

Each table has a topic of its own with one partition, one table two partitions of one topic. All numbers of tables get
the same records. They take turns in one JVM, pass after pass; the first pass includes the JVM's compilation. With
``--latency-ms`` the warehouse is a local S3 server that delays each answer. Where ``many_tables`` measures the batches
without Spark, in one process, this one has the tasks in processes of their own.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.events import COLUMN_TYPES, events
from benchmarks.slow_store import slow_store
from benchmarks.throughput import run
from pipelines.config.config import PipelineConfig
from tests.stack.kafka import KafkaBroker


def topic_of(tables: int, table: int) -> str:
    return f"t{tables}.public.t{table:04d}"


def fill(broker: KafkaBroker, counts: Sequence[int], events_count: int, keys: int) -> None:
    """Produce the same events for each number of tables, to the tables in turn."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    topics = [NewTopic(topic_of(n, t), 2 if n == 1 else 1, 1) for n in counts for t in range(n)]
    for made in admin.create_topics(topics).values():
        made.result()
    most = 100_000
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "linger.ms": 50,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": most,
            "queue.buffering.max.kbytes": 1 << 18,
        }
    )
    for n, (key, value) in enumerate(events(events_count, keys)):
        for count in counts:
            while len(producer) >= most:
                producer.poll(0.1)
            table = b'"table":"t%04d"' % (n % count)
            producer.produce(topic_of(count, n % count), value.replace(b'"table":"orders"', table), key)
    producer.flush()


def config_of(
    root: Path, broker: KafkaBroker, tables: int, options: Mapping[str, str], args: argparse.Namespace
) -> PipelineConfig:
    return PipelineConfig.model_validate(
        {
            "version": 1,
            "name": f"bench{tables}",
            "source": {
                "kafka": {
                    "bootstrap_servers": broker.bootstrap_servers,
                    "topics": {"include": [rf"t{tables}\.public\..*"]},
                    "max_records_per_batch": args.batch,
                },
                "format": "debezium-json",
            },
            "trigger": {"available_now": True},
            "checkpoint": f"{root}/checkpoint",
            "catalog": {"warehouse": f"s3://bench/{root.name}" if options else f"{root}/warehouse", "options": options},
            "spark": {"master": f"local[{args.cores}]"},
            "defaults": {"options": {"bucket": "2" if tables == 1 else "1", "changelog-producer": args.producer}},
            "tables": [{"match": {"table": "(.*)"}, "into": "lake.{table}", "columns": {"types": COLUMN_TYPES}}],
        }
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="1,10,100")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=50_000)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--producer", default="lookup")
    parser.add_argument("--latency-ms", type=float, default=0.0)
    args = parser.parse_args(arguments)
    counts = [int(text) for text in args.tables.split(",")]
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        root = Path(directory)
        broker = KafkaBroker(root / "kafka")
        broker.start()
        try:
            fill(broker, counts, args.events, args.keys)
            with ExitStack() as stack:
                store = stack.enter_context(slow_store(args.latency_ms)) if args.latency_ms else None
                options = store.options if store else {}
                run(
                    [
                        (f"{tables} tables", config_of(root / f"pass-{number}-{tables}", broker, tables, options, args))
                        for number in range(1, args.passes + 1)
                        for tables in counts
                    ]
                )
                if store:
                    print(f"the store took {store.processor_seconds():.1f} s of processor time, on the same cores")
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
