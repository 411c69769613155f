"""Events whose message keys, old rows and embedded schemas a test chooses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from paimon_table.errors import Outage
from pipelines.trial.trial_pipeline import TrialPipeline
from sources.changes import RECORD_SCHEMA

Row = Mapping[str, Any]

Event = tuple[Row | bytes | None, str, Row | None, Row | None]
"""Message key, op, before, after."""

COLUMNS = {"id": "int64", "k2": "string", "n": "int32", "note": "string"}


def batch_of(
    offset: int, events: Sequence[Event], with_schema: bool = False, default: str | None = None
) -> pa.RecordBatch:
    rows = []
    for at, (key, op, before, after) in enumerate(events, offset):
        source = {"db": "shop", "schema": "public", "table": "t"}
        value: dict[str, Any] = {"before": before, "after": after, "source": source, "op": op}
        if with_schema:
            value = {"schema": envelope_schema(default), "payload": value}
        place = {"topic": "shop.public.t", "partition": 0, "offset": at, "timestamp": 0, "headers": None}
        raw_key = key if key is None or isinstance(key, bytes) else json.dumps(key).encode()
        rows.append({**place, "key": raw_key, "value": json.dumps(value).encode()})
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def run_through_outages(pipeline: TrialPipeline, records: pa.RecordBatch) -> None:
    """Run a batch, and start the pipeline again after each outage until the batch is done."""
    for _ in range(20):
        try:
            pipeline.run(records)
            return
        except Outage:
            pipeline.restart()
    raise AssertionError("the pipeline does not come over it")


def envelope_schema(default: str | None = None) -> dict[str, Any]:
    """As JsonConverter embeds it: id, k2 and n are NOT NULL, note is not, and has a DEFAULT if one is given."""
    fields: list[dict[str, Any]] = [
        {"field": name, "type": t, "optional": name == "note"} for name, t in COLUMNS.items()
    ]
    if default is not None:
        fields[-1]["default"] = default
    images = [{"field": side, "type": "struct", "fields": fields, "optional": True} for side in ("before", "after")]
    return {"type": "struct", "fields": [*images, {"field": "op", "type": "string", "optional": False}]}


def created(key: Row, **row: Any) -> Event:
    return key, "c", None, {**key, **row}
