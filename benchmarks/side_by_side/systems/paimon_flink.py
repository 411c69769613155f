"""Paimon on Flink: one SQL job from Kafka's ``debezium-json`` into a Paimon table, in one JVM with its mini cluster.

Settings follow Paimon's page on write performance: as many writers as buckets, spillable write buffers, object reuse,
no upsert materialization. If few keys have most events, a local merge runs before the shuffle. Progress is the position
that Flink commits to Kafka when a checkpoint is complete.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks.side_by_side.columns import KEY, KEY_TYPE, SQL_TYPES, Column
from benchmarks.side_by_side.environments import Environment
from benchmarks.side_by_side.measuring import SystemFailed
from benchmarks.side_by_side.systems.paimon_options import paimon_options
from benchmarks.side_by_side.systems.system import Launch, Task
from benchmarks.side_by_side.workloads import Workload
from paimon_table import Table
from tests.stack.jars import Artifact
from tests.stack.kafka import LOG_CONFIG
from tests.stack.paths import java_command

FLINK_VERSION, PAIMON_VERSION = "1.20.1", "1.3.1"
JOB = Path(__file__).resolve().parents[1] / "workers" / "FlinkJob.java"
GROUP = "side-by-side"
HEAP = "-Xmx4g"
OPENED_PACKAGES = (
    *("java.net", "java.io", "java.nio", "java.lang", "java.lang.reflect", "java.text", "java.time", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks", "sun.nio.ch"),
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
        ),
        with_dependencies=False,
    )

    def settings(self, workload: Workload) -> Mapping[str, str]:
        options = paimon_options(workload)
        if workload.is_append:
            return options
        merge = {"local-merge-buffer-size": "64 mb"} if workload.is_skewed else {}
        return {**options, "sink.parallelism": "2", "write-buffer-spillable": "true", **merge}

    def launch(self, task: Task) -> Launch:
        assert self.environment is not None
        flink = self.environment.site_packages(task.home) / "pyflink"
        jars = (flink / "lib" / "*", self.environment.jar_directory(task.home) / "*", *_hadoop_classes())
        class_path = ":".join((str(_compiled(task, flink / "lib")), *map(str, jars)))
        log_config, settings, script = (
            task.directory / name for name in ("log4j.properties", "settings.properties", "statements.sql")
        )
        log_config.write_text(LOG_CONFIG)
        settings.write_text("".join(f"{name}={value}\n" for name, value in _flink_settings(task).items()))
        script.write_text("\n\n".join(statements(task, self.settings(task.workload))))
        opens = (f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED_PACKAGES)
        head = (java_command(), HEAP, *opens, f"-Dlog4j.configurationFile={log_config}", "-cp", class_path)
        return Launch((*head, JOB.stem, str(settings), str(script)), os.environ)

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


def _compiled(task: Task, flink_jars: Path) -> Path:
    """The directory with the classes of the worker."""
    java = Path(java_command())
    compiler = str(java.with_name("javac")) if java.is_absolute() else "javac"
    classes = task.directory / "classes"
    command = [compiler, "-cp", str(flink_jars / "*"), "-d", str(classes), str(JOB)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise SystemFailed(f"{compiler} is not there: install a JDK 17, a Java runtime has no compiler") from None
    if done.returncode != 0:
        raise SystemFailed(f"cannot compile {JOB}: {done.stderr}")
    return classes


def _hadoop_classes() -> Sequence[Path]:
    """Paimon needs them also on a local disk. Those of the pyspark wheel serve: Ivy refuses the pom of Flink's own."""
    return sorted(Path(str(files("pyspark"))).glob("jars/hadoop-client-*.jar"))


def _group(task: Task) -> str:
    """A consumer group of this run alone: that of an earlier one has read the topic already."""
    return f"{GROUP}-{task.directory.parent.name}"


def _committed(consumer: Consumer, places: Sequence[TopicPartition]) -> int:
    try:
        return sum(max(0, place.offset) for place in consumer.committed(places, timeout=10))
    except KafkaException:  # the coordinator of a new group is not there at once
        return 0


def _flink_settings(task: Task) -> Mapping[str, str]:
    return {
        "table.local-time-zone": "UTC",
        "table.exec.sink.upsert-materialize": "NONE",
        "parallelism.default": str(task.cores),
        "pipeline.object-reuse": "true",
        "restart-strategy.type": "none",  # a job that fails has no result; by default it starts again for ever
        "execution.checkpointing.interval": f"{task.workload.checkpoint_ms} ms",
    }


def statements(task: Task, options: Mapping[str, str]) -> Sequence[str]:
    """The SQL of the job. Append tables take no changes: their events are plain JSON, of which they get ``after``.

    The columns that an event lacks, because it is of another kind, are NULL.
    """
    workload = task.workload
    kafka = {
        "connector": "kafka",
        "topic": task.topic,
        "properties.bootstrap.servers": task.bootstrap_servers,
        "properties.group.id": _group(task),
        "scan.startup.mode": "earliest-offset",
        "scan.bounded.mode": "latest-offset",
        "format": "json" if workload.is_append else "debezium-json",
    }
    columns = ", ".join((f"{KEY} {SQL_TYPES[KEY_TYPE]}", *(f"{one.name} {one.sql_type}" for one in workload.columns)))
    key = "" if workload.is_append else f", PRIMARY KEY ({KEY}) NOT ENFORCED"
    inserts = [f"INSERT INTO paimon.lake.{table} {_selection(workload, table)}" for table in workload.tables]
    together = "EXECUTE STATEMENT SET BEGIN " + "".join(f"{insert}; " for insert in inserts) + "END"
    return [
        f"CREATE TEMPORARY TABLE events ({_sent_columns(workload)}) WITH ({_pairs(kafka)})",
        f"CREATE CATALOG paimon WITH ('type' = 'paimon', 'warehouse' = 'file://{task.directory}/warehouse')",
        "CREATE DATABASE paimon.lake",
        *(f"CREATE TABLE paimon.lake.{t} ({columns}{key}) WITH ({_pairs(options)})" for t in workload.tables),
        inserts[0] if len(inserts) == 1 else together,
    ]


def _sent_columns(workload: Workload) -> str:
    sent = {KEY: SQL_TYPES[KEY_TYPE]} | {one.name: one.sql_type for one in workload.columns if one.is_sent}
    fields = ", ".join(f"{name} {'BIGINT' if kind.startswith('TIMESTAMP') else kind}" for name, kind in sent.items())
    if workload.is_append:
        return f"`after` ROW<{fields}>"
    return f"{fields}, source_table STRING METADATA FROM 'value.source.table' VIRTUAL"


def _selection(workload: Workload, table: str) -> str:
    row = "`after`." if workload.is_append else ""
    values = (f"{row}{KEY}", *(_value(column, row) for column in workload.columns))
    where = f" WHERE source_table = '{table}'" if len(workload.tables) > 1 else ""
    return f"SELECT {', '.join(values)} FROM events{where}"


def _value(column: Column, row: str) -> str:
    if not column.is_sent:
        return f"CAST(1 AS {column.sql_type})"
    sent = f"{row}{column.name}"
    is_moment = column.sql_type.startswith("TIMESTAMP")
    return f"CAST(TO_TIMESTAMP_LTZ({sent}, 3) AS {column.sql_type})" if is_moment else sent


def _pairs(options: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
