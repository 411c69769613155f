"""Inserts into a source table `items`, of as many databases as a test wants."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from sources.changes import RECORD_SCHEMA


def items(database: str, offset: int, *ids: int, topic: str | None = None, table: str = "items") -> pa.RecordBatch:
    """Inserts into the table `items` of one shard, or into another one."""
    rows: list[dict[str, Any]] = []
    for at, key in enumerate(ids, offset):
        source = {"db": database, "schema": "public", "table": table}
        value = {"before": None, "after": {"id": key, "qty": key}, "source": source, "op": "c"}
        place = {"topic": topic or f"{database}.public.{table}", "partition": 0, "offset": at, "timestamp": 0}
        rows.append({**place, "key": json.dumps({"id": key}).encode(), "value": json.dumps(value).encode()})
    return pa.RecordBatch.from_pylist([{**row, "headers": None} for row in rows], schema=RECORD_SCHEMA)
