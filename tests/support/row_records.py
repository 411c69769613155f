"""Rows without envelope as records, their decoded form, and the target that takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from paimon_table.row_kind import RowKind
from sources.changes import RECORD_SCHEMA, Decoded, SourceTable
from sources.decode_target import Goal
from sources.upsert_json.decoder import UpsertJsonDecoder
from sources.upsert_json.policies import UpsertPolicies
from tests.support.envelope_records import raw, target

TOPIC = "srv.public.orders"
SOURCE = SourceTable(TOPIC, None, "public", "orders")
TARGET = target(id="INT NOT NULL", v="STRING")
Row = Mapping[str, Any]


def rows_of(
    *rows: tuple[Any, Any] | tuple[Any, Any, Mapping[str, str]], topic: str = TOPIC, first: int = 100
) -> pa.RecordBatch:
    """Records of keys and values, with headers after them; values other than bytes are written as JSON, None stays."""
    found = [
        {
            "topic": topic, "partition": 2, "offset": offset, "key": raw(key), "value": raw(value),
            "headers": [{"key": name, "value": text.encode()} for name, text in (more[0] if more else {}).items()],
        }
        for offset, (key, value, *more) in enumerate(rows, first)
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(found, schema=RECORD_SCHEMA)


def decoded(batch: pa.RecordBatch, goals: Mapping[SourceTable, Goal] | Goal = TARGET, **policies: str) -> Decoded:
    """The result of decoding records; a goal alone is that of ``SOURCE``."""
    chosen = goals if isinstance(goals, Mapping) else {SOURCE: goals}
    return UpsertJsonDecoder(UpsertPolicies(**policies)).decode(batch, chosen)


def stored(found: Decoded, *columns: str) -> list[tuple[Any, ...]]:
    """Kinds, values and offsets of all change rows, by source table as they come."""
    names: Sequence[str] = columns or ("id", "v")
    return [
        (RowKind(row["_VALUE_KIND"]).short, *(row[name] for name in names), row["_OFFSET"])
        for change in found.changes
        for row in change.rows.to_pylist()
    ]
