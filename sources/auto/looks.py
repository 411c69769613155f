"""The format of a topic's first records, as far as they show it: the one place that decides it.

Every record has a look. That is a format that it certainly has, one of ``NOTHING`` for records of any format, or words
for what it is instead. Looks add up, so each task inspects only its share of a topic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from paimon_table.errors import ConfigError, MalformedRecord
from sources.changes import TopicLook
from sources.debezium_json.control_records import control_kind
from sources.debezium_json.envelopes import unwrapped, unwrapped_key
from sources.debezium_json.ops import OPS
from sources.json_changes.exact_parse import parse_json
from sources.record_look import format_of_fields
from sources.upsert_json.metadata import Metadata
from sources.wording import counted

DEBEZIUM, UPSERT, PLAIN = "debezium-json", "upsert-json", "json"
NOTHING = ""
"""The look of nulls, heartbeats and similar records."""
BINARY = "binary values, which may be Avro or Protocol Buffers"
NO_JSON = "values that are not JSON"
NO_OBJECT = "JSON values that are not objects"
ROWS_UNDER_KEYS = "JSON rows whose message keys are not among their columns"
_REMEDIES = {
    BINARY: "set debezium-avro, upsert-avro, avro or protobuf with its registry or schema file, or give `auto` the "
    "registry",
    NO_JSON: "set the format, such as csv with its columns, or avro or protobuf with the file that has its schema",
    NO_OBJECT: "set the format, or let the producer write objects",
    ROWS_UNDER_KEYS: "if the message key is the key of the row, set upsert-json; otherwise set json, and a "
    "primary_key or `mode: append` in the rule",
}
_METADATA = Metadata()


_IMAGES = ("before", "after", "message", "source")


def control_kind_of(key: bytes | None, value: bytes, topic: str) -> str | None:
    """The kind of a control record in JSON; None for other records."""
    try:
        parsed = unwrapped(parse_json(value))
    except MalformedRecord:
        return None
    return control_kind(parsed, _key(key), topic) if isinstance(parsed, dict) else None


def look_of(key: bytes | None, value: bytes | None, topic: str) -> str:
    """The look of one record in JSON or text."""
    if value is None:
        return NOTHING
    try:
        parsed = unwrapped(parse_json(value))
    except MalformedRecord:
        return NO_JSON
    if parsed is None:
        return NOTHING
    if not isinstance(parsed, dict):
        return NO_OBJECT
    key_value = _key(key)
    if control_kind(parsed, key_value, topic) is not None:
        return NOTHING
    if parsed.get("op") in [*OPS] and any(isinstance(parsed.get(name), dict) for name in _IMAGES):
        return DEBEZIUM
    other = format_of_fields(parsed)
    if other is not None:
        return other
    if parsed.keys() & _METADATA.names:
        return UPSERT
    if key is None:
        return PLAIN
    is_key_of_row = isinstance(key_value, dict) and bool(key_value) and key_value.items() <= _plain(parsed).items()
    return UPSERT if is_key_of_row else ROWS_UNDER_KEYS


def _key(key: bytes | None) -> Any:
    try:
        found = None if key is None else unwrapped_key(parse_json(key))
    except MalformedRecord as error:
        return error
    return _plain(found) if isinstance(found, dict) else found


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that can be key fields."""
    return {name: value for name, value in row.items() if not isinstance(value, dict | list)}


def chosen_format(topic: str, looks: Iterable[TopicLook]) -> str | None:
    """The format of a topic; None if its records so far show none. Raises ConfigError if they disagree."""
    seen: Counter[str] = Counter()
    for look in looks:
        seen.update(look.seen)
    format_, told = format_told(seen)
    if told is None:
        return format_
    remedy = _REMEDIES.get(told)
    words = (
        f"its first records include {told}: set the format of the pipeline, or exclude the topic"
        if remedy is None
        else f"its first records are {told}: {remedy}"
    )
    raise ConfigError(f"source.format: auto cannot tell the format of topic {topic}: {words}")


def format_told(seen: Mapping[str, int]) -> tuple[str | None, str | None]:
    """The format that looks show, or the words for what leaves it open; neither if they show nothing.

    If other records show a format, those that show none do not count: they go to quarantine. The same holds for bare
    objects if more records come from a tool, which may write such objects itself. If some rows have a message key and
    others do not, the key stays open.
    """
    formats = {name: number for name, number in seen.items() if number and name not in (NOTHING, *_REMEDIES)}
    unclear = {name: seen[name] for name in _REMEDIES if seen.get(name)}
    tool = max((name for name in formats if name not in (UPSERT, PLAIN)), key=formats.__getitem__, default=None)
    if tool is not None and formats[tool] * 2 > sum(formats.values()):
        return tool, None
    if formats.keys() == {UPSERT, PLAIN} or (ROWS_UNDER_KEYS in unclear and formats.keys() <= {UPSERT, PLAIN}):
        return None, ROWS_UNDER_KEYS
    if not formats:
        return None, max(unclear, key=unclear.__getitem__, default=None)
    if len(formats) == 1:
        return next(iter(formats)), None
    return None, " and ".join(f"{counted(number, 'record')} of {name}" for name, number in sorted(formats.items()))
