"""Pipelines whose partition column is not part of the key: their records, tables and rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_table.table import Table
from pipelines.tables.tables import PipelineTables
from sources.changes import RECORD_SCHEMA
from tests.support.local_batches import pipeline_tables

Image = Mapping[str, Any] | None
Event = tuple[str, Image, Image]


def records(events: Sequence[Event], first_offset: int = 0) -> pa.RecordBatch:
    source = {"db": "shop", "schema": "public", "table": "t"}
    rows = []
    for offset, (op, before, after) in enumerate(events, first_offset):
        image = after or before or {}
        value = json.dumps({"before": before, "after": after, "source": source, "op": op}).encode()
        key = json.dumps({"id": image["id"]}).encode()
        place = {"topic": "shop.public.t", "partition": 0, "offset": offset, "timestamp": 0, "headers": None}
        rows.append({**place, "key": key, "value": value})
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def moving_tables(directory: Path, **options: str) -> PipelineTables:
    types = {"id": "BIGINT", "dt": "STRING", "body": "STRING"}
    rule: dict[str, object] = {
        "match": {"table": "t"},
        "into": "lake.t",
        "partition_by": ["dt"],
        "columns": {"types": types},
    }
    return pipeline_tables(directory, [rule], bucket="-1", **options)


def stored(directory: Path) -> Table:
    return Table.open(str(directory / "warehouse" / "lake.db" / "t"))


def rows_of(table: Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])
    return rows
