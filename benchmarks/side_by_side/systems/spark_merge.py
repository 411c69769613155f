"""Iceberg and Delta as most pipelines write them: MERGE in ``foreachBatch`` of a Spark stream, in a Spark of their own.

The worker ``workers/spark_job.py`` runs in that environment. It notes its progress in a file, and writes the rows of
each table into a Parquet file once its work is measured.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.side_by_side.columns import KEY, KEY_TYPE, SQL_TYPES, EventKind
from benchmarks.side_by_side.environments import Environment
from benchmarks.side_by_side.systems.system import Launch, Task
from benchmarks.side_by_side.workloads import Workload
from tests.stack.jars import Artifact

WORKER = Path(__file__).resolve().parents[1] / "workers" / "spark_job.py"
SPARK_VERSION = "4.1.1"
ICEBERG_VERSION, DELTA_VERSION = "1.11.0", "4.3.1"
ROUNDING = 10
"""Spark rounds the share of each partition down: without more, a last batch of few events would cost as a full one."""
_SPARK = "org.apache.spark"
_KAFKA_JARS = (
    Artifact(_SPARK, "spark-sql-kafka-0-10_2.13", SPARK_VERSION),
    Artifact(_SPARK, "spark-token-provider-kafka-0-10_2.13", SPARK_VERSION),
    Artifact("org.apache.kafka", "kafka-clients", "3.9.1"),
    Artifact("org.apache.commons", "commons-pool2", "2.12.0"),
)


@dataclass(frozen=True, slots=True)
class SparkMerge:
    """An adapter; see ``System``."""

    name: str
    title: str
    environment: Environment | None
    merge_settings: Mapping[str, str]
    """Properties of a table with a key."""
    append_settings: Mapping[str, str]

    def settings(self, workload: Workload) -> Mapping[str, str]:
        return self.append_settings if workload.is_append else self.merge_settings

    def launch(self, task: Task) -> Launch:
        assert self.environment is not None
        orders = {
            "system": self.name,
            "tables": task.workload.tables,
            "kinds": [_kind(task.workload, kind) for kind in task.workload.kinds],
            "key": {"name": KEY, "type": SQL_TYPES[KEY_TYPE], "fold": "key"},
            "is_append": task.workload.is_append,
            "bootstrap_servers": task.bootstrap_servers,
            "topic": task.topic,
            "event_count": task.event_count,
            "events_per_batch": task.workload.events_per_commit + ROUNDING,
            "cores": task.cores,
            "directory": str(task.directory),
            "jars": sorted(map(str, self.environment.jar_directory(task.home).glob("*.jar"))),
            "properties": dict(self.settings(task.workload)),
        }
        path = task.directory / "task.json"
        path.write_text(json.dumps(orders))
        python = str(self.environment.python(task.home))
        others = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "SPARK_HOME"}}
        return Launch((python, str(WORKER), str(path)), {**others, "PYSPARK_PYTHON": python})

    @contextmanager
    def watching(self, task: Task) -> Iterator[Callable[[], int]]:
        yield lambda: _last_number(task.directory / "progress.txt")

    def is_over(self, task: Task) -> bool:
        return (task.directory / "is-over").exists()

    def content(self, task: Task, table: str) -> pa.Table:
        return pq.read_table(task.directory / "content" / table)


def _kind(workload: Workload, kind: EventKind) -> Mapping[str, object]:
    columns = [{"name": one.name, "type": one.sql_type, "fold": one.fold} for one in kind.columns]
    return {"source_tables": workload.source_tables(kind), "columns": columns}


def _last_number(path: Path) -> int:
    """Of the lines that are whole."""
    lines = path.read_text().rpartition("\n")[0].splitlines() if path.exists() else []
    return int(lines[-1]) if lines else 0


ICEBERG = SparkMerge(
    "iceberg",
    f"Iceberg {ICEBERG_VERSION} MERGE, Spark {SPARK_VERSION}",
    Environment(
        "iceberg",
        (f"pyspark=={SPARK_VERSION}",),
        (*_KAFKA_JARS, Artifact("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", ICEBERG_VERSION)),
    ),
    {"format-version": "3", "write.merge.mode": "merge-on-read", "write.distribution-mode": "none"},
    {"format-version": "3", "write.distribution-mode": "none"},
)

DELTA = SparkMerge(
    "delta",
    f"Delta {DELTA_VERSION} MERGE, Spark {SPARK_VERSION}",
    Environment(
        "delta",
        (f"pyspark=={SPARK_VERSION}",),
        (
            *_KAFKA_JARS,
            Artifact("io.delta", "delta-spark_4.1_2.13", DELTA_VERSION),
            Artifact("io.delta", "delta-storage", DELTA_VERSION),
        ),
    ),
    {"delta.enableDeletionVectors": "true"},
    {},
)
