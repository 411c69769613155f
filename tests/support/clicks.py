"""Events of one topic of clicks whose records have no key, as micro-batches without a broker."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from sinks.quarantine import Quarantine
from sources.changes import RECORD_SCHEMA

MAY = datetime(2024, 5, 1, tzinfo=UTC)


def event(
    op: str, after: Any = None, before: Any = None, key: Any = None, ms: int | None = 0, table: str = "clicks"
) -> tuple[Any, Any]:
    """Message key and envelope."""
    source = {"connector": "postgresql", "ts_ms": None if ms is None else int(MAY.timestamp() * 1000) + ms}
    source |= {"db": "shop", "schema": "public", "table": table}
    return key, {"before": before, "after": after, "source": source, "op": op, "ts_ms": 7}


def records(*events: tuple[Any, Any], first_offset: int = 0, partition: int = 0) -> pa.RecordBatch:
    rows = []
    for offset, (key, value) in enumerate(events, first_offset):
        place = {"topic": "shop.public.clicks", "partition": partition, "offset": offset, "timestamp": 0}
        texts = [None if part is None else json.dumps(part, separators=(",", ":")).encode() for part in (key, value)]
        rows.append({**place, "key": texts[0], "value": texts[1], "headers": None})
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def rule(**more: object) -> dict[str, object]:
    return {"match": {"table": "clicks"}, "into": "lake.clicks", "mode": "append", **more}


def reasons(quarantine: Quarantine) -> list[str]:
    files = sorted(Path(quarantine.path).rglob("*.jsonl"))
    return [json.loads(line)["reason"] for file in files for line in file.read_text().splitlines()]


def inserts(count: int, first: int = 0) -> list[tuple[Any, Any]]:
    return [event("c", {"id": number, "text": f"t{number}"}) for number in range(first, first + count)]
