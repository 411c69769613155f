"""Paimon on Flink: one SQL job from Kafka's ``debezium-json`` into a Paimon table, in one JVM with its mini cluster.

Settings follow Paimon's page on write performance: as many writers as buckets, spillable write buffers, object reuse,
no upsert materialization; where few keys have most events, a local merge before the shuffle. Progress is the position
that Flink commits to Kafka when a checkpoint is complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks.side_by_side.environments import Environment
from benchmarks.side_by_side.systems.system import Launch, Task
from benchmarks.side_by_side.workloads import Workload
from paimon_table import Table
from tests.stack.jars import Artifact
from tests.stack.paths import java_command

FLINK_VERSION, PAIMON_VERSION = "1.20.1", "1.3.1"
GROUP = "side-by-side"
HEAP = "-Xmx4g"
OPENED_PACKAGES = (
    *("java.net", "java.io", "java.nio", "java.lang", "java.lang.reflect", "java.text", "java.time", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks", "sun.nio.ch"),
)
COLUMNS = (
    ("id", "BIGINT"),
    ("customer_id", "BIGINT"),
    ("status", "STRING"),
    ("amount", "DECIMAL(10, 2)"),
    ("quantity", "INT"),
    ("note", "STRING"),
    ("created_at", "TIMESTAMP(3)"),
    ("updated_at", "TIMESTAMP(3)"),
    ("is_paid", "BOOLEAN"),
    ("address", "STRING"),
)


class PaimonFlink:
    """An adapter; see ``System``."""

    name = "paimon-flink"
    title = f"Paimon {PAIMON_VERSION} on Flink {FLINK_VERSION}"
    environment: Environment | None = Environment(
        name,
        (f"apache-flink-libraries=={FLINK_VERSION}",),
        (
            Artifact("org.apache.paimon", "paimon-flink-1.20", PAIMON_VERSION),
            Artifact("org.apache.flink", "flink-connector-kafka", "3.4.0-1.20"),
            Artifact("org.apache.kafka", "kafka-clients", "3.4.0"),
            Artifact("org.apache.flink", "flink-shaded-hadoop-2-uber", "2.8.3-10.0"),
        ),
        with_dependencies=False,
    )

    def settings(self, workload: Workload) -> Mapping[str, str]:
        if workload.is_append:
            return {"bucket": "-1"}
        merge = {"local-merge-buffer-size": "64 mb"} if workload.is_skewed else {}
        return {
            "bucket": "2",
            "changelog-producer": "lookup",
            "sink.parallelism": "2",
            "write-buffer-spillable": "true",
            **merge,
        }

    def launch(self, task: Task) -> Launch:
        assert self.environment is not None
        flink = self.environment.site_packages(task.home) / "pyflink"
        script = task.directory / "job.sql"
        script.write_text(_job(task, self.settings(task.workload)))
        classes = (flink / "lib" / "*", self.environment.jar_directory(task.home) / "*", flink / "opt" / "*")
        opens = (f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED_PACKAGES)
        command = (
            java_command(),
            HEAP,
            *opens,
            *("-cp", ":".join(map(str, classes)), "org.apache.flink.table.client.SqlClient"),
            *("embedded", "-f", str(script)),
        )
        return Launch(command, {**os.environ, "FLINK_CONF_DIR": str(flink / "conf")})

    @contextmanager
    def watching(self, task: Task) -> Iterator[Callable[[], int]]:
        consumer = Consumer({"bootstrap.servers": task.bootstrap_servers, "group.id": _group(task)})
        partitions = consumer.list_topics(task.topic, timeout=10).topics[task.topic].partitions
        places = [TopicPartition(task.topic, number) for number in partitions]
        try:
            yield lambda: _committed(consumer, places)
        finally:
            consumer.close()

    def is_over(self, task: Task) -> bool:
        return False

    def content(self, task: Task, table: str) -> pa.Table:
        return Table.open_for_reading(str(task.directory / "warehouse" / "lake.db" / table)).to_arrow()


def _group(task: Task) -> str:
    """A consumer group of this run alone: that of an earlier one has read the topic already."""
    return f"{GROUP}-{task.directory.parent.name}"


def _committed(consumer: Consumer, places: Sequence[TopicPartition]) -> int:
    try:
        return sum(max(0, place.offset) for place in consumer.committed(places, timeout=10))
    except KafkaException:  # the coordinator of a new group is not there at once
        return 0


def _job(task: Task, options: Mapping[str, str]) -> str:
    """The SQL script. Append tables take no changes: there events are plain JSON, of which the table gets ``after``."""
    workload = task.workload
    settings = {
        "execution.runtime-mode": "streaming",
        "execution.target": "local",
        "table.dml-sync": "true",
        "table.local-time-zone": "UTC",
        "table.exec.sink.upsert-materialize": "NONE",
        "parallelism.default": str(task.cores),
        "pipeline.object-reuse": "true",
        "execution.checkpointing.interval": f"{workload.checkpoint_ms} ms",
    }
    kafka = {
        "connector": "kafka",
        "topic": task.topic,
        "properties.bootstrap.servers": task.bootstrap_servers,
        "properties.group.id": _group(task),
        "scan.startup.mode": "earliest-offset",
        "scan.bounded.mode": "latest-offset",
        "format": "json" if workload.is_append else "debezium-json",
    }
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS)
    key = "" if workload.is_append else ", PRIMARY KEY (id) NOT ENFORCED"
    lines = [
        *(f"SET '{name}' = '{value}';" for name, value in settings.items()),
        f"CREATE TEMPORARY TABLE events ({_sent_columns(workload)}) WITH ({_pairs(kafka)});",
        f"CREATE CATALOG paimon WITH ('type' = 'paimon', 'warehouse' = 'file://{task.directory}/warehouse');",
        "CREATE DATABASE paimon.lake;",
        *(f"CREATE TABLE paimon.lake.{t} ({columns}{key}) WITH ({_pairs(options)});" for t in workload.tables),
    ]
    inserts = [f"INSERT INTO paimon.lake.{table} {_selection(workload, table)};" for table in workload.tables]
    if len(inserts) > 1:
        inserts = ["EXECUTE STATEMENT SET", "BEGIN", *inserts, "END;"]
    return "\n".join((*lines, *inserts, ""))


def _sent_columns(workload: Workload) -> str:
    fields = ", ".join(f"{name} {'BIGINT' if kind.startswith('TIMESTAMP') else kind}" for name, kind in COLUMNS)
    if workload.is_append:
        return f"`after` ROW<{fields}>"
    return f"{fields}, source_table STRING METADATA FROM 'value.source.table' VIRTUAL"


def _selection(workload: Workload, table: str) -> str:
    row = "`after`." if workload.is_append else ""
    values = (
        f"CAST(TO_TIMESTAMP_LTZ({row}{name}, 3) AS TIMESTAMP(3))" if kind.startswith("TIMESTAMP") else f"{row}{name}"
        for name, kind in COLUMNS
    )
    where = f" WHERE source_table = '{table}'" if len(workload.tables) > 1 else ""
    return f"SELECT {', '.join(values)} FROM events{where}"


def _pairs(options: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
