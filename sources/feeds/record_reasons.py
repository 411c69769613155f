"""Reasons, with remedies, for records that cannot be read or whose primary key differs from their table's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paimon_table.errors import MalformedRecord
from sources.debezium_json.strange_values import strange_bytes
from sources.decode_target import KeyRule
from sources.record_look import other_format, remedy, shown_fields

_DEBEZIUM_FIELDS = frozenset({"op", "source"})


def strange_value(value: Any, raw: bytes, tool: str) -> str:
    """Why a value is not a record of the tool; ``value`` is what ``raw`` says, or the MalformedRecord in its place."""
    if isinstance(value, MalformedRecord):
        return strange_bytes(raw, tool) or str(value)
    return f"value is not a record of {tool}: it is not a JSON object"


def strange_fields(value: Any, tool: str) -> str:
    """Why a JSON value is not a record of the tool: it lacks fields that the tool always writes."""
    if isinstance(value, MalformedRecord):
        return str(value)
    named = {*value} if isinstance(value, Mapping) else set()
    if named >= _DEBEZIUM_FIELDS:
        return f"value is not a record of {tool} but an envelope of Debezium: set source.format to debezium-json"
    other = other_format(named)
    if other is not None and tool not in other:
        return f"value is not a record of {tool}: it looks like {other}; {remedy(other)}, or leave the topic out"
    return f"value is not a record of {tool}; {shown_fields(value)}"


def unusable_key(tool: str, rule: KeyRule, primary_key: Sequence[str]) -> str:
    """The quarantine reason for a record that names no primary key."""
    keyed = ", ".join(primary_key)
    return (
        f"the message key and the record name no primary key, but table {rule.table} has the key of its first "
        f"records ({keyed}). Set primary_key: [{keyed}] in the rule if these columns identify a row, or let {tool} "
        "write the key"
    )
