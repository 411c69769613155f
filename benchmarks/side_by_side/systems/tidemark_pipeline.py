"""Tidemark as its users run it: ``tidemark run FILE --once``, with the lookup changelog for tables with a key."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from benchmarks.events import COLUMN_TYPES as ORDER_TYPES
from benchmarks.side_by_side.environments import Environment
from benchmarks.side_by_side.systems.system import Launch, Task
from benchmarks.side_by_side.workloads import Workload
from paimon_table import Table
from paimon_table.errors import TidemarkError
from sinks.commit.positions import newest_position
from tidemark import __version__

PIPELINE = "side-by-side"
COLUMN_TYPES = ORDER_TYPES | {"created_at": "TIMESTAMP(3)", "updated_at": "TIMESTAMP(3)"}


class TidemarkPipeline:
    """An adapter; see ``System``."""

    name = "tidemark"
    title = f"Tidemark {__version__}"
    environment: Environment | None = None

    def settings(self, workload: Workload) -> Mapping[str, str]:
        if workload.is_append:
            return {"mode": "append", "bucket": "-1"}
        return {"bucket": "2", "changelog-producer": "lookup"}

    def launch(self, task: Task) -> Launch:
        path = task.directory / "pipeline.yaml"
        path.write_text(json.dumps(_pipeline(task, dict(self.settings(task.workload)))))  # JSON is YAML
        command = (sys.executable, "-m", "tidemark", "run", str(path), "--once")
        project = str(Path(__file__).resolve().parents[3])
        return Launch(command, {**os.environ, "PYTHONPATH": project})

    @contextmanager
    def watching(self, task: Task) -> Iterator[Callable[[], int]]:
        yield lambda: min(_events_in(_directory(task, table)) for table in task.workload.tables)

    def is_over(self, task: Task) -> bool:
        return False

    def content(self, task: Task, table: str) -> pa.Table:
        return Table.open_for_reading(str(_directory(task, table))).to_arrow()


def _events_in(directory: Path) -> int:
    """What the newest snapshot says; 0 while the table comes into being."""
    if not (directory / "snapshot").is_dir():
        return 0
    try:
        position = newest_position(Table.open_for_reading(str(directory)).snapshots, PIPELINE)
    except (TidemarkError, OSError):
        return 0
    return 0 if position is None else sum(position.offsets.values())


def _directory(task: Task, table: str) -> Path:
    return task.directory / "warehouse" / "lake.db" / table


def _pipeline(task: Task, options: dict[str, str]) -> dict[str, object]:
    mode = options.pop("mode", "upsert")
    return {
        "version": 1,
        "name": PIPELINE,
        "source": {
            "kafka": {
                "bootstrap_servers": task.bootstrap_servers,
                "topics": [task.topic],
                "max_records_per_batch": task.workload.events_per_commit,
            },
            "format": "debezium-json",
        },
        "trigger": {"available_now": True},
        "checkpoint": f"{task.directory}/checkpoint",
        "catalog": {"warehouse": f"{task.directory}/warehouse"},
        "spark": {"master": f"local[{task.cores}]"},
        "tables": [
            {
                "match": {"table": list(task.workload.tables)},
                "into": "lake.{table}",
                "mode": mode,
                "columns": {"types": COLUMN_TYPES, "decimal_format": "text"},
                "options": options,
            }
        ],
    }
