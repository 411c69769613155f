"""Events of one source table as records, their decoded form, and the target that takes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from paimon_table.row_kind import RowKind
from paimon_table.types import parse_type
from sources.changes import RECORD_SCHEMA, Decoded, SourceTable
from sources.debezium_json.decoder import DebeziumJsonDecoder
from sources.debezium_json.policies import DebeziumPolicies
from sources.decode_target import DecodeTarget
from sources.values.value_forms import ValueForms

TOPIC = "shop.public.orders"
SOURCE = SourceTable(TOPIC, "shop", "public", "orders")
Json = Mapping[str, Any]


def target(primary_key: str = "id", update_before: bool = False, **types: str) -> DecodeTarget:
    columns = tuple((name, parse_type(t)) for name, t in types.items())
    return DecodeTarget(columns, tuple(primary_key.split()), update_before)


def event(op: str, before: Json | None = None, after: Json | None = None, table: str = "orders") -> Json:
    source = {"version": "3.7.0.Final", "db": "shop", "schema": "public", "table": table}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1}


def records(values: Sequence[Any], keys: Sequence[Any] = (), topic: str = TOPIC) -> pa.RecordBatch:
    """A batch of records; dicts are written as JSON, bytes and None stay."""
    rows = [
        {
            "topic": topic,
            "partition": 2,
            "offset": 100 + i,
            "key": raw(keys[i] if keys else None),
            "value": raw(value),
            "headers": [{"key": "h", "value": b"1"}],
        }
        for i, value in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def raw(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def decode(
    batch: pa.RecordBatch,
    goal: DecodeTarget | None = None,
    policies: DebeziumPolicies | None = None,
    forms: ValueForms | None = None,
) -> Decoded:
    return DebeziumJsonDecoder(policies, forms).decode(batch, {SOURCE: goal})


def kinds_and(decoded: Decoded, *columns: str) -> list[tuple[Any, ...]]:
    (change,) = decoded.changes
    return [
        (RowKind(row["_VALUE_KIND"]).short, *(row[c] for c in columns), row["_OFFSET"])
        for row in change.rows.to_pylist()
    ]


TWO_COLUMNS = target(id="INT NOT NULL", v="STRING")
