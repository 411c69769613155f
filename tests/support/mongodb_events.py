"""Events of Debezium's connector for MongoDB, and documents in Extended JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sources.changes import RECORD_SCHEMA

Json = dict[str, Any]
Event = tuple[Json | None, Json | None]
"""Message key and value of a record."""

TOPIC = "mg.inv.cust"
RULE: Json = {"match": {"topic": TOPIC}, "into": "lake.cust"}
OID = {"$oid": "64a0000000000000000000aa"}

_JSON = {"type": "string", "optional": True, "name": "io.debezium.data.Json", "version": 1}
_SCHEMA = {
    "type": "struct",
    "fields": [
        {**_JSON, "field": "before"},
        {**_JSON, "field": "after"},
        {"type": "struct", "fields": [{"type": "string", "field": "collection"}], "field": "source"},
        {"type": "string", "optional": True, "field": "op"},
    ],
    "optional": False,
    "name": "mg.inv.cust.Envelope",
}
_KEY_SCHEMA = {"type": "struct", "fields": [{"type": "string", "field": "id"}], "name": "mg.inv.cust.Key"}


def text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def key_of(document_id: Any) -> Json:
    return {"id": text(document_id)}


def change(op: str, document_id: Any, after: Any = None, before: Any = None, **fields: Any) -> Event:
    """A record about the document with this ``_id``; ``after`` and ``before`` are documents, or texts of them."""
    sides = {
        name: side if side is None or isinstance(side, str) else text(side)
        for name, side in (("before", before), ("after", after))
    }
    source = {"version": "3.2.1.Final", "connector": "mongodb", "name": "mg", "ts_ms": 1_735_689_600_000}
    source |= {"snapshot": "false", "db": "inv", "sequence": None, "collection": "cust", "ord": 1}
    value = sides | {"updateDescription": None} | fields | {"source": source, "op": op, "ts_ms": 1_735_689_600_001}
    return key_of(document_id), value


def partial(document_id: Any, updated: Json, removed: Sequence[str] = (), **more: Any) -> Event:
    """An update with only the changed fields."""
    description = {"removedFields": list(removed) or None, "updatedFields": text(updated), "truncatedArrays": None}
    return change("u", document_id, updateDescription=description | more)


def insert(document: Json) -> Event:
    return change("c", document["_id"], document)


def with_schemas(event: Event) -> Event:
    """The same as the converter writes it with ``schemas.enable=true``."""
    key, value = event
    return (
        {"schema": _KEY_SCHEMA, "payload": key},
        None if value is None else {"schema": _SCHEMA, "payload": value},
    )


def records(*events: Event, first_offset: int = 0) -> pa.RecordBatch:
    rows = [
        {"topic": TOPIC, "partition": 0, "offset": offset, "timestamp": 0, "headers": None}
        | {name: None if part is None else text(part).encode() for name, part in (("key", key), ("value", value))}
        for offset, (key, value) in enumerate(events, first_offset)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)
