"""Records of envelopes as the transform ExtractNewRecordState makes them flat, in each of its modes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]

_STRUCT = {"op": None, "ts_ms": None, "ts_us": None, "ts_ns": None, "id": "transaction", "total_order": "transaction"}


@dataclass(frozen=True)
class Unwrap:
    """The settings of the transform; names of fields are those of the connector's ``add.fields``."""

    mode: str = "rewrite"
    """``drop``, ``tombstone``, ``rewrite`` or ``rewrite-with-tombstone``; ``none`` is an older connector's."""
    add_fields: tuple[str, ...] = ()
    prefix: str = "__"
    add_headers: tuple[str, ...] = ()
    schemas: bool = False
    """The value converter writes schemas."""


FIELDS = ("op", "db", "schema", "table", "lsn", "source.ts_ms", "ts_ms", "total_order")
UNWRAPS = {
    "rewrite": Unwrap("rewrite", FIELDS),
    "rewrite, no fields": Unwrap("rewrite"),
    "rewrite with tombstone": Unwrap("rewrite-with-tombstone", FIELDS),
    "tombstone": Unwrap("tombstone", FIELDS),
    "tombstone, no fields": Unwrap("tombstone"),
    "tombstone, headers": Unwrap("tombstone", (), add_headers=("op", "db", "schema", "table")),
    "nulls and tombstones": Unwrap("none", ("op", "table")),
    "tombstone, op in headers": Unwrap("tombstone", ("db",), add_headers=("op",)),
}
"""Settings in each mode, by name."""


def flattened(records: Iterable[Record], unwrap: Unwrap) -> Iterator[Record]:
    """The records after the transform; values that are not envelopes stay as they are."""
    for record in records:
        yield from _flat(record, unwrap)


def _flat(record: Record, unwrap: Unwrap) -> Iterator[Record]:
    if record["value"] is None:
        if unwrap.mode in ("rewrite-with-tombstone", "none"):
            yield record
        return
    value = json.loads(record["value"])
    schema, payload = (value["schema"], value["payload"]) if "schema" in value else (None, value)
    if "op" not in payload or payload["op"] == "m":
        yield record
        return
    if payload["op"] == "t":
        return
    headers = [*(record["headers"] or ())]
    for field in unwrap.add_headers:
        headers.append({"key": _name("__", field), "value": str(_value(payload, field)).encode()})
    is_delete = payload["op"] == "d"
    if is_delete and unwrap.mode == "drop":
        return
    row_schema = None if schema is None else next(f for f in schema["fields"] if f["field"] == "after")
    if is_delete and unwrap.mode in ("tombstone", "none"):
        # The schema of the rows stays, so the converters write a null instead of nothing.
        null = {"schema": row_schema, "payload": None} if unwrap.schemas and row_schema else None
        yield {**record, "headers": headers, "value": json.dumps(null, separators=(",", ":")).encode()}
        return
    row = dict(payload["before"] if is_delete else payload["after"])
    added: dict[str, Any] = {}
    if unwrap.mode.startswith("rewrite"):
        added["__deleted"] = "true" if is_delete else "false"
    for field in unwrap.add_fields:
        added[_name(unwrap.prefix, field)] = _value(payload, field)
    flat: Any = {**row, **added}
    if unwrap.schemas and row_schema is not None:
        extra = [
            {"type": "int64" if isinstance(v, int) else "string", "optional": True, "field": name}
            for name, v in added.items()
        ]
        struct = {k: v for k, v in row_schema.items() if k != "field"}
        flat = {"schema": {**struct, "fields": [*row_schema["fields"], *extra]}, "payload": flat}
    text = json.dumps(flat, separators=(",", ":"), ensure_ascii=False)
    yield {**record, "headers": headers, "value": text.encode()}


def _name(prefix: str, field: str) -> str:
    path, _, renamed = field.partition(":")
    return prefix + (renamed or path.replace(".", "_"))


def _value(payload: Any, field: str) -> Any:
    path = field.partition(":")[0]
    struct, _, name = path.rpartition(".")
    holder = struct or _STRUCT.get(name, "source")
    found = payload if holder is None else payload.get(holder)
    return None if found is None else found.get(name)
