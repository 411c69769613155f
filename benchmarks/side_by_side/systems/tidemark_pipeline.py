"""Tidemark as its users run it: ``tidemark run FILE --once``, with the lookup changelog for tables with a key."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from benchmarks.side_by_side.columns import KEY, KEY_TYPE, SQL_TYPES
from benchmarks.side_by_side.environments import Environment
from benchmarks.side_by_side.systems.paimon_options import paimon_options
from benchmarks.side_by_side.systems.system import Launch, Task
from benchmarks.side_by_side.workloads import Workload
from paimon_table import CommitKind, Table
from paimon_table.errors import TidemarkError
from sinks.commit.positions import position_of
from tidemark import __version__

PIPELINE = "side-by-side"


class TidemarkPipeline:
    """An adapter; see ``System``."""

    name = "tidemark"
    title = f"Tidemark {__version__}"
    environment: Environment | None = None

    def settings(self, workload: Workload) -> Mapping[str, str]:
        mode = {"mode": "append"} if workload.is_append else {}
        return {**mode, **paimon_options(workload)}

    def launch(self, task: Task) -> Launch:
        path = task.directory / "pipeline.yaml"
        path.write_text(json.dumps(_pipeline(task, dict(self.settings(task.workload)))))  # JSON is YAML
        command = (sys.executable, "-m", "tidemark", "run", str(path), "--once")
        project = str(Path(__file__).resolve().parents[3])
        return Launch(command, {**os.environ, "PYTHONPATH": project})

    @contextmanager
    def watching(self, task: Task) -> Iterator[Callable[[], int]]:
        kind = CommitKind.APPEND if task.workload.is_append else CommitKind.COMPACT
        yield lambda: min(_events_in(table_directory(task.directory, table), kind) for table in task.workload.tables)

    def is_over(self, task: Task) -> bool:
        return False

    def content(self, task: Task, table: str) -> pa.Table:
        return Table.open_for_reading(str(table_directory(task.directory, table))).to_arrow()


def _events_in(directory: Path, kind: CommitKind) -> int:
    """By the newest snapshot of a kind; 0 while there is none. The changelog of a batch comes with its COMPACT."""
    if not (directory / "snapshot").is_dir():
        return 0
    try:
        snapshots = Table.open_for_reading(str(directory)).snapshots
        newest = next((one for one in snapshots.newest_first() if one.commit_kind == kind), None)
    except (TidemarkError, OSError):
        return 0
    position = None if newest is None else position_of(newest, PIPELINE)
    return 0 if position is None else sum(position.offsets.values())


def table_directory(directory: Path, table: str) -> Path:
    """Where a table is, of the task with this directory."""
    return directory / "warehouse" / "lake.db" / table


def _pipeline(task: Task, options: dict[str, str]) -> dict[str, object]:
    workload, mode = task.workload, options.pop("mode", "upsert")
    types = {KEY: SQL_TYPES[KEY_TYPE]} | {column.name: column.sql_type for column in workload.columns}
    counts = {column.name: f"CAST(1 AS {column.sql_type})" for column in workload.columns if not column.is_sent}
    merged = {"primary_key": [KEY], "merge_sources": "same_rows"} if len(workload.kinds) > 1 else {}
    return {
        "version": 1,
        "name": PIPELINE,
        "source": {
            "kafka": {
                "bootstrap_servers": task.bootstrap_servers,
                "topics": [task.topic],
                **({} if workload.is_paced else {"max_records_per_batch": workload.events_per_commit}),
            },
            "format": "debezium-json",
        },
        "trigger": {
            "available_now": True,
            **({"target_batch_duration": f"{workload.checkpoint_ms}ms"} if workload.is_paced else {}),
        },
        "checkpoint": f"{task.directory}/checkpoint",
        "catalog": {"warehouse": f"{task.directory}/warehouse"},
        "spark": {"master": f"local[{task.cores}]"},
        "tables": [
            {
                "match": {"table": [table for kind in workload.kinds for table in workload.source_tables(kind)]},
                "into": f"lake.{workload.tables[0]}" if merged else "lake.{table}",
                "mode": mode,
                **merged,
                "columns": {"types": types, "decimal_format": "text", **({"add": counts} if counts else {})},
                "options": options,
            }
        ],
    }
