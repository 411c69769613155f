"""The look of an unreadable record, without its values: enough to see which system wrote it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable

FIELDS_SHOWN = 8

_OTHER_FORMATS: tuple[tuple[str, frozenset[str]], ...] = (
    ("Canal JSON", frozenset({"data", "type", "isDdl"})),
    ("Canal JSON", frozenset({"data", "type", "mysqlType"})),
    ("Maxwell JSON", frozenset({"database", "table", "type", "ts", "data"})),
    ("Oracle GoldenGate JSON", frozenset({"table", "op_type", "op_ts"})),
    ("AWS DMS JSON", frozenset({"data", "metadata"})),
    ("a CloudEvent", frozenset({"specversion", "id", "type"})),
)
"""Formats of other tools, by fields that all their records have."""
_FORMAT_NAMES = {
    "Canal JSON": "canal-json",
    "Maxwell JSON": "maxwell-json",
    "Oracle GoldenGate JSON": "ogg-json",
    "AWS DMS JSON": "dms-json",
}
"""Their words in ``source.format``."""

_ROWS = "rows without an envelope (formats upsert-json and json)"
_AVRO_FORMATS = "the formats debezium-avro, upsert-avro, avro"
_AVRO_MAGIC = 0
_AVRO_HEADER = 5


def record_look(value: bytes | None) -> str:
    """A description of a record's value: its fields, and the format that they show."""
    if value is None:
        return "no value"
    if len(value) > _AVRO_HEADER and value[0] == _AVRO_MAGIC:
        return f"binary, framed as for a schema registry ({_AVRO_FORMATS} and protobuf read this)"
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return "not JSON: let the connector write JSON (value.converter), or set the format that it writes"
    if not isinstance(parsed, dict):
        return f"a JSON {_KINDS.get(type(parsed), 'number')}, not an object"
    # A connector may write a schema next to the payload.
    fields = parsed["payload"] if isinstance(parsed.get("payload"), dict) else parsed
    return f"JSON with the fields {_names(fields)}{_format_of(fields)}"


_KINDS: dict[type, str] = {list: "list", str: "text", bool: "truth value", type(None): "null"}


def _names(fields: Collection[str]) -> str:
    shown = [name[:40] for name in fields][:FIELDS_SHOWN]
    more = len(fields) - len(shown)
    return (", ".join(shown) or "none") + (f" and {more} more" if more else "")


def _format_of(fields: Collection[str]) -> str:
    """The format that the fields show; empty for a Debezium envelope."""
    if "op" in fields:
        return ""
    other = other_format(fields)
    return f", which look like {_ROWS if other is None else f'{other}: {remedy(other)}'}"


def other_format(fields: Collection[str]) -> str | None:
    """The format of another tool that the fields of a record show; None if they show none."""
    return next((name for name, telling in _OTHER_FORMATS if telling <= {*fields}), None)


def format_named(other: str) -> str | None:
    """The word of another tool's format in ``source.format``; None if this version does not read it."""
    return _FORMAT_NAMES.get(other)


def tool_of_format(format_: str) -> str:
    """The name of another tool's format in messages."""
    return next(other for other, name in _FORMAT_NAMES.items() if name == format_)


def format_of_fields(fields: Collection[str]) -> str | None:
    """The word in ``source.format`` for another tool's format that the fields show; None if there is none."""
    return _FORMAT_NAMES.get(other_format(fields) or "")


def envelope_words(columns: Collection[str]) -> str | None:
    """The look of columns that are not a row, with a remedy: the fields of Debezium's envelope, and no others."""
    if not _ENVELOPE <= {*columns} <= _ENVELOPE | _BESIDE:
        return None
    return (
        f"its records are envelopes of Debezium ({', '.join(columns)}), not rows; set source.format to debezium-json,"
        " or to debezium-avro if they are in Avro"
    )


_ENVELOPE = frozenset({"before", "after", "source", "op"})
_BESIDE = frozenset({"ts_ms", "ts_us", "ts_ns", "transaction"})


def other_words(columns: Collection[str]) -> str:
    """An aside, with a remedy, if columns look like the records of another tool; otherwise empty."""
    other = other_format(columns)
    return "" if other is None else f" (they look like {other}: {remedy(other)})"


def shown_fields(value: Iterable[str]) -> str:
    """The first fields of an unrecognised record, for the end of the reason."""
    return f"fields: {', '.join(map(repr, [*value][:5])) or 'none'}"


def remedy(other: str) -> str:
    """The remedy for records of another format: to read them as such, if this version can."""
    name = format_named(other)
    return "this version does not read them" if name is None else f"set source.format to {name}"
