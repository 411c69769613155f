"""Which format the records of a topic have, by what a few of them look like. Knows shapes, and decodes nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sources.debezium_json.control_records import control_kind
from sources.formats import FORMATS
from sources.record_look import format_named, other_format

_ENVELOPE = frozenset({"before", "after"})
_MAGIC = b"\x00"
_REGISTRY_HEADER_BYTES = 5
_REGISTRY_HEADERS = ("__value_schema_id", "apicurio.value.")


@dataclass(frozen=True, slots=True)
class TopicFormat:
    """What the records of a topic are. ``format`` is the word of ``source.format``; None where nothing reads them."""

    topic: str
    format: str | None
    words: str
    """For people: the format and what else was seen, or what the records are instead."""
    key: tuple[str, ...] | None = None
    """The fields of the message key; none of one without names, None where the records have no key."""
    has_schema: bool = False
    """Whether the records bring the types of their columns."""


def needed_settings(format_: str) -> Mapping[str, Mapping[str, str]]:
    """The settings without which a pipeline file cannot name the format, with a value to begin with."""
    needed = FORMATS[format_].needed
    return {} if needed is None else {needed.name: {"url": "${env:SCHEMA_REGISTRY_URL:-http://localhost:8081}"}}


def topic_formats(batches: Iterable[pa.RecordBatch], topics: Iterable[str]) -> list[TopicFormat]:
    """The format of each topic, from a sample of its records; in the order of ``topics``."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            rows.setdefault(row["topic"], []).append(row)
    return [_of_topic(topic, rows.get(topic, ())) for topic in topics]


def _of_topic(topic: str, rows: Sequence[Mapping[str, Any]]) -> TopicFormat:
    looks = Counter(look for row in rows if row["value"] is not None and (look := _look(topic, row)) is not None)
    if not looks:
        return TopicFormat(topic, None, "no records" if not rows else "no records with a value")
    (format_, words, has_schema), _ = max(looks.items(), key=lambda item: (item[0][0] is not None, item[1]))
    keys = Counter(_key_fields(row["key"]) for row in rows)
    key = keys.most_common(1)[0][0]
    return TopicFormat(topic, format_, words, key, has_schema)


def _look(topic: str, row: Mapping[str, Any]) -> tuple[str | None, str, bool] | None:
    """Format, words, and whether the record brings types."""
    value: bytes = row["value"]
    named = any(str(h["key"]).startswith(_REGISTRY_HEADERS) for h in row["headers"] or ())
    if named or (value.startswith(_MAGIC) and len(value) > _REGISTRY_HEADER_BYTES):
        return "debezium-avro", "Avro with a schema registry", True
    parsed = _json(value)
    if not isinstance(parsed, dict):
        return None, "no JSON objects and no Avro with a schema registry", False
    has_schema = isinstance(parsed.get("schema"), dict) and "payload" in parsed
    fields = parsed["payload"] if has_schema else parsed
    schema_words = "with embedded schemas" if has_schema else "without embedded schemas"
    if not isinstance(fields, dict):
        return None, "JSON with a schema and no row", False
    if "op" in fields and fields.keys() & _ENVELOPE:
        return "debezium-json", f"Debezium envelopes {schema_words}", has_schema
    key = _payload(_json(row["key"])) if row["key"] is not None else None
    kind = control_kind(fields, key, topic)
    if kind is not None:
        return None, f"control records ({kind})", False
    tool = other_format(fields)
    if tool is not None:
        return format_named(tool), tool, False
    return "upsert-json", f"rows without an envelope, {schema_words}", has_schema


def _key_fields(key: bytes | None) -> tuple[str, ...] | None:
    fields = None if key is None else _payload(_json(key))
    return None if key is None else tuple(fields) if isinstance(fields, dict) else ()


def _payload(parsed: Any) -> Any:
    return parsed["payload"] if isinstance(parsed, dict) and {*parsed} == {"schema", "payload"} else parsed


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
