"""Values that are neither an event nor a control record: their look and a remedy, for the quarantine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paimon_table.errors import MalformedRecord
from sources.record_look import other_format, remedy, shown_fields
from sources.wording import EMPTY

_USE_JSON = "set value.converter to org.apache.kafka.connect.json.JsonConverter"
_NO_ENVELOPE = "value is not a Debezium envelope: "
_UNWRAPPED = "it is a row without envelope: "
_KEEP_ENVELOPES = "remove the transform ExtractNewRecordState from the connector"
_OF_COCKROACH = "with CockroachDB create the changefeed WITH envelope='enriched'"
_REGISTRY_HEADER_BYTES = 5
_BEFORE_JSON = b"\xef\xbb\xbf \t\r\n"


def strange_bytes(raw: bytes, tool: str | None = None) -> str | None:
    """Why bytes are not JSON, if their beginning shows it; otherwise None.

    ``tool`` writes them, if not Kafka Connect.
    """
    use_json = _USE_JSON if tool is None else f"let {tool} write JSON"
    if not raw.strip():
        return f"value {EMPTY}"
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "value is not UTF-8 text but UTF-16: let the producer write UTF-8"
    if raw.startswith(b"\x00") and len(raw) > _REGISTRY_HEADER_BYTES:
        schema_id = int.from_bytes(raw[1:_REGISTRY_HEADER_BYTES], "big")
        schema = f"schema {schema_id} of a schema registry"
        if raw[_REGISTRY_HEADER_BYTES:].startswith(b"{"):
            return f"value is JSON Schema with {schema}: {use_json}"
        formats = "read Avro with the format debezium-avro or upsert-avro, or " if tool is None else ""
        return f"value is Avro or Protobuf with {schema}: {formats}{use_json}"
    if raw.startswith(b"Struct{"):
        return f"value is not JSON but the text of a Java object: {use_json}"
    return None


def strange_value(value: Any, raw: bytes) -> str:
    """Why a value is not an event of a table; ``value`` is the parsed ``raw``, or a MalformedRecord instead."""
    if isinstance(value, MalformedRecord):
        return strange_bytes(raw) or str(value)
    if isinstance(value, str) and value.lstrip().startswith("{"):
        return f"{_NO_ENVELOPE}it is not a JSON object but a JSON text inside a string: {_USE_JSON}, and convert once"
    if not isinstance(value, Mapping):
        return f"{_NO_ENVELOPE}it is not a JSON object"
    if value.get("op") is not None:
        return f"{_NO_ENVELOPE}op is {value['op']!r}"
    is_json = raw.lstrip(_BEFORE_JSON).startswith(b"{")
    is_payload = is_json and b'"payload"' in raw and "payload" not in value
    lacks = f"{'its payload' if is_payload else 'it'} has {'null in the' if 'op' in value else 'no'} field op"
    other = other_format(value)
    if other is not None:
        return f"{_NO_ENVELOPE}{lacks} and looks like {other}; {remedy(other)}, or leave the topic out"
    images = [name for name in ("before", "after") if isinstance(value.get(name), Mapping)]
    if value.keys() & {"updated", "mvcc_timestamp"} and "after" in value:
        return f"{_NO_ENVELOPE}{lacks}; {_OF_COCKROACH}"
    if images:
        keep = f"{_NO_ENVELOPE}{lacks}, but {' and '.join(images)}; let no transform of the connector change it"
        return keep if is_payload else f"{keep}; {_OF_COCKROACH}"
    if not value:
        return f"{_NO_ENVELOPE}it is an object without fields"
    form = "upsert-json" if is_json else "upsert-avro"
    unwrapped = f"{_UNWRAPPED}read it with the format {form}, or {_KEEP_ENVELOPES}"
    if value.keys() <= {"ts_ms", "ts_us", "ts_ns"}:
        return f"{_NO_ENVELOPE}{lacks} but a time; a heartbeat would have the key serverName; {unwrapped}"
    return f"{_NO_ENVELOPE}{lacks}; {unwrapped}, or leave the topic out; {shown_fields(value)}"


def missing_row(op: str, envelope: Any) -> str:
    """Why an event has no row, though its operation needs one."""
    reason = f"op {op} without a row in after"
    if not isinstance(envelope, Mapping):
        return reason
    if isinstance(envelope.get("after"), str):
        return f"{reason}: it holds a JSON text instead of an object; {_USE_JSON}, and convert once"
    return reason
