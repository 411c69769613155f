"""What a record that cannot be read looks like, without its values: enough to see which system wrote it."""

from __future__ import annotations

import json
from collections.abc import Collection

FIELDS_SHOWN = 8

_KNOWN = (
    ({"data", "type", "isDdl"}, "Canal JSON, which is not supported: let Debezium follow the database"),
    ({"data", "type", "mysqlType"}, "Canal JSON, which is not supported: let Debezium follow the database"),
    ({"database", "table", "type", "ts", "data"}, "Maxwell JSON, which is not supported: let Debezium follow it"),
    ({"before", "after", "op_type", "op_ts"}, "GoldenGate JSON, which is not supported: let Debezium follow it"),
)
"""Fields that tell a format, and what it is."""

_ROWS = "rows without an envelope: if Debezium writes them, remove the transform ExtractNewRecordState of the connector"
_AVRO_MAGIC = 0
_AVRO_HEADER = 5


def record_look(value: bytes | None) -> str:
    """In words what the value of a record is like: its fields, and the format that they tell."""
    if value is None:
        return "no value"
    if len(value) > _AVRO_HEADER and value[0] == _AVRO_MAGIC:
        return "binary, as Avro with a schema registry is: let the connector write JSON (value.converter)"
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return "no JSON: let the connector write JSON (value.converter)"
    if not isinstance(parsed, dict):
        return f"a JSON {_KINDS.get(type(parsed), 'number')}, and no object"
    # A connector may write a schema beside the payload.
    fields = parsed["payload"] if isinstance(parsed.get("payload"), dict) else parsed
    return f"JSON with the fields {_names(fields)}{_format_of(fields)}"


_KINDS: dict[type, str] = {list: "list", str: "text", bool: "truth value", type(None): "null"}


def _names(fields: Collection[str]) -> str:
    shown = [name[:40] for name in fields][:FIELDS_SHOWN]
    more = len(fields) - len(shown)
    return (", ".join(shown) or "none") + (f" and {more} more" if more else "")


def _format_of(fields: Collection[str]) -> str:
    """The format that the fields tell; nothing for an envelope of Debezium."""
    if "op" in fields:
        return ""
    return ", which look like " + next((words for telling, words in _KNOWN if telling <= {*fields}), _ROWS)
