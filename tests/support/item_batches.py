"""Batches of changes to one source table, items, and the outcome of their records."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.batch.batch_report import BatchReport
from pipelines.tables.tables import PipelineTables
from sources.changes import RECORD_SCHEMA
from tests.support.local_batches import ALL_TABLES, pipeline_tables, reported_batches

TOPIC = "shop.public.items"


def event(op: str, key: int, after: Any = None, before: Any = None, table: str = "items") -> tuple[Any, Any]:
    """Message key and value."""
    source = {"db": "shop", "schema": "public", "table": table}
    return {"id": key}, {"before": before, "after": after, "source": source, "op": op}


def typed(key: int, row: dict[str, Any], types: dict[str, str]) -> tuple[Any, Any]:
    """An insert or update with an embedded schema."""
    columns = [{"field": name, "type": kind, "optional": name != "id"} for name, kind in types.items()]
    schema = {
        "type": "struct",
        "fields": [{"type": "struct", "field": "after", "fields": columns}, {"field": "op", "type": "string"}],
    }
    return {"id": key}, {"schema": schema, "payload": event("u", key, row)[1]}


def drawn_value(r: random.Random, kind: str) -> Any:
    if r.random() < 0.2:
        return None
    number = r.choice([0, -5, 77, (1 << 31) - 1, *([1 << 40] if kind == "int64" else [])])
    return r.choice([str(number), "x"]) if kind == "string" else number


def records(*events: tuple[Any, Any], first_offset: int = 0) -> pa.RecordBatch:
    rows = [
        {"topic": TOPIC, "partition": 0, "offset": offset, "timestamp": 0, "key": _raw(key), "value": _raw(value)}
        for offset, (key, value) in enumerate(events, first_offset)
    ]
    return pa.RecordBatch.from_pylist([{**row, "headers": None} for row in rows], schema=RECORD_SCHEMA)


def _raw(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else json.dumps(value).encode()


def filled(directory: Path, rules: Sequence[dict[str, object]] = ALL_TABLES) -> PipelineTables:
    """The tables of a process that has just started again over a table with the rows 1, 2 and 3."""
    tables = pipeline_tables(directory, list(rules))
    reported_batches(tables, [records(*(event("c", key, {"id": key}) for key in (1, 2, 3)))], directory)
    return PipelineTables(tables.config, tables.commit_user)


def run(tables: PipelineTables, directory: Path, *batches: pa.RecordBatch) -> tuple[list[str], list[BatchReport]]:
    """The reasons of the records in quarantine, and the reports."""
    quarantine, reports = reported_batches(tables, batches, directory, first_batch_id=1)
    files = sorted(Path(quarantine.path).rglob("*.jsonl"))
    return [json.loads(line)["reason"] for file in files for line in file.read_text().splitlines()], reports
