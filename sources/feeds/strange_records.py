"""Values that are no record of the format: what they look like, and what to do about it, for the quarantine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paimon_table.errors import MalformedRecord
from sources.record_look import other_format, remedy

_REGISTRY_HEADER_BYTES = 5
_DEBEZIUM_FIELDS = frozenset({"op", "source"})


def strange_bytes(raw: bytes, tool: str) -> str | None:
    """Why bytes are no JSON, where their beginning tells; None where it does not."""
    if not raw.strip():
        return "value is empty: let the producer write null for a tombstone, or leave the record out"
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "value is not UTF-8 text but UTF-16: let the producer write UTF-8"
    if raw.startswith(b"\x00") and len(raw) > _REGISTRY_HEADER_BYTES:
        return f"value is not JSON but looks like Avro or Protobuf with a schema registry: let {tool} write JSON"
    return None


def strange_value(value: Any, raw: bytes, tool: str) -> str:
    """Why a value is no record of the tool; ``value`` is what ``raw`` says, or the MalformedRecord in its place."""
    if isinstance(value, MalformedRecord):
        return strange_bytes(raw, tool) or str(value)
    return f"value is no record of {tool}: it is not a JSON object"


def strange_fields(value: Any, tool: str) -> str:
    """Why a JSON value without the fields that the tool always writes is no record of it."""
    if isinstance(value, MalformedRecord):
        return str(value)
    named = {*value} if isinstance(value, Mapping) else set()
    if named >= _DEBEZIUM_FIELDS:
        return f"value is no record of {tool} but an envelope of Debezium: set source.format to debezium-json"
    other = other_format(named)
    if other is not None and tool not in other:
        return f"value is no record of {tool}: it looks like {other}; {remedy(other)}, or leave the topic out"
    return f"value is no record of {tool}; fields: {', '.join(map(repr, [*value][:5])) or 'none'}"
