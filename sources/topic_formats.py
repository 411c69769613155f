"""The format of a topic's records, by the looks of a few of them. Knows shapes, and decodes nothing.

``sources.auto.looks`` distinguishes formats, here as for ``source.format: auto``. Topics that it leaves open get a
probable format, and its necessary settings.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from sources.auto.looks import (
    BINARY,
    DEBEZIUM,
    NO_JSON,
    NOTHING,
    PLAIN,
    ROWS_UNDER_KEYS,
    UPSERT,
    control_kind_of,
    format_told,
    look_of,
)
from sources.avro.framing import Framing
from sources.record_look import tool_of_format

Settings: TypeAlias = Mapping[str, Any]
"""Options of a format by name: texts, lists of texts, and groups of these."""

REGISTRY: Settings = {"registry": {"url": "${env:SCHEMA_REGISTRY_URL:-http://localhost:8081}"}}
_TEXTS = "texts that are neither JSON objects nor lines of CSV"
_BYTES = (
    "binary values without a schema registry; if they are Protocol Buffers, read them with a separate file, with "
    "format: { protobuf: { descriptor_file: FILE, message: NAME } }"
)
_WORDS = {
    DEBEZIUM: "Debezium envelopes",
    UPSERT: "rows without an envelope,",
    PLAIN: "plain rows",
    ROWS_UNDER_KEYS: "plain rows under message keys that are not columns,",
}
_DELIMITERS = ",;\t|"
_NAME = re.compile(r"[^\W\d][\w .-]*")
_FEWEST_LINES = 2


@dataclass(frozen=True, slots=True)
class TopicFormat:
    """The kind of a topic's records. ``format`` is the word of ``source.format``; None if no format reads them."""

    topic: str
    format: str | None
    words: str
    """For people: the format and other observations, or what the records are instead."""
    key: tuple[str, ...] | None = None
    """The fields of the message key; empty for a key without names, None if the records have no key."""
    has_schema: bool = False
    """Whether the records contain the types of their columns."""
    settings: Settings = field(default_factory=dict)
    """The format options for a pipeline file."""


@dataclass(slots=True)
class _Seen:
    """The kinds of one topic's records."""

    rows: int = 0
    looks: Counter[str] = field(default_factory=Counter)
    keys: Counter[tuple[str, ...] | None] = field(default_factory=Counter)
    control: Counter[str] = field(default_factory=Counter)
    texts: list[bytes] = field(default_factory=list)
    """Values that are not JSON."""
    with_schema: int = 0

    @property
    def is_mostly_framed(self) -> bool:
        """Whether most values that show a format name a schema of a registry."""
        return self.looks[BINARY] * 2 > sum(number for look, number in self.looks.items() if look != NOTHING)


def topic_formats(batches: Iterable[pa.RecordBatch], topics: Iterable[str]) -> list[TopicFormat]:
    """The format of each topic, from a sample of its records; in the order of ``topics``."""
    seen: dict[str, _Seen] = {}
    for batch in batches:
        is_framed = (Framing(batch, "value", has_tails=True).frames.codes >= 0).tolist()
        for row, framed in zip(batch.to_pylist(), is_framed, strict=True):
            _note(seen.setdefault(row["topic"], _Seen()), row, framed)
    return [_of_topic(topic, seen.get(topic, _Seen())) for topic in topics]


def _note(seen: _Seen, row: Mapping[str, Any], is_framed: bool) -> None:
    key, value, topic = row["key"], row["value"], row["topic"]
    look = BINARY if is_framed else look_of(key, value, topic)
    seen.rows += 1
    seen.looks[look] += value is not None
    seen.keys[_key_fields(key)] += 1
    if look == NO_JSON:
        seen.texts.append(value)
    kind = None if value is None or is_framed else control_kind_of(key, value, topic)
    if kind is not None:
        seen.control[kind] += 1
    seen.with_schema += is_framed or (value is not None and _has_schema(value))


def _of_topic(topic: str, seen: _Seen) -> TopicFormat:
    format_, told = format_told(seen.looks)
    settings: Settings = {}
    has_schema = seen.with_schema * 2 > sum(seen.looks.values())
    schema_words = "with embedded schemas" if has_schema else "without embedded schemas"
    shape = BINARY if seen.is_mostly_framed else format_ or told
    if shape == BINARY:
        format_, words, settings = "auto", "Avro or Protocol Buffers with a schema registry", REGISTRY
    elif shape in _WORDS:
        format_, words = format_ or PLAIN, f"{_WORDS[shape]} {schema_words}"
    elif shape == NO_JSON and (found := _csv_settings(seen.texts)) is not None:
        format_, words, settings = "csv", "lines of CSV", found
    elif format_ is not None:
        words = tool_of_format(format_)
    elif told is not None:
        words = (_TEXTS if _is_text(seen.texts) else _BYTES) if shape == NO_JSON else told
    elif seen.control:
        words = f"control records ({seen.control.most_common(1)[0][0]})"
    else:
        words = "no records with a value" if seen.rows else "no records"
    key = seen.keys.most_common(1)[0][0] if format_ is not None else None
    return TopicFormat(topic, format_, words, key, has_schema and format_ is not None, settings)


def _is_text(values: Sequence[bytes]) -> bool:
    """Whether values look like text: UTF-8 without control characters, except for white space."""
    try:
        return all(character.isprintable() or character.isspace() for v in values for character in v.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def _key_fields(key: bytes | None) -> tuple[str, ...] | None:
    fields = None if key is None else _json(key)
    if isinstance(fields, dict) and {*fields} == {"schema", "payload"}:
        fields = fields["payload"]
    return None if key is None else tuple(fields) if isinstance(fields, dict) else ()


def _has_schema(value: bytes) -> bool:
    parsed = _json(value)
    return isinstance(parsed, dict) and isinstance(parsed.get("schema"), dict) and "payload" in parsed


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


# ---------------------------------------------------------------- CSV


def _csv_settings(values: Sequence[bytes]) -> Settings | None:
    """The options that read these values as CSV; None unless all lines have the same number of fields, two or more."""
    try:
        lines = [value.decode("utf-8") for value in values]
    except UnicodeDecodeError:
        return None
    if len(lines) < _FEWEST_LINES or not all(line.isprintable() or "\t" in line for line in lines):
        return None
    for delimiter in _DELIMITERS:
        rows = list(csv.reader(lines, delimiter=delimiter))
        widths = {len(row) for row in rows}
        if len(rows) == len(lines) and len(widths) == 1 and (width := widths.pop()) > 1:
            first = [name.strip() for name in rows[0]]
            columns = first if _is_header(first, rows[1:]) else [f"column_{n}" for n in range(1, width + 1)]
            return {"columns": columns} | ({} if delimiter == "," else {"delimiter": delimiter})
    return None


def _is_header(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether names look like column names: no number, no repetition, and no column has its name as a value."""
    is_named = all(_NAME.fullmatch(name) for name in names) and len({name.lower() for name in names}) == len(names)
    return is_named and not any(name == row[i].strip() for row in rows for i, name in enumerate(names))
