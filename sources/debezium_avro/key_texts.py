"""Message keys of records with Avro values, as JSON texts: Avro keys as JsonConverter writes them, with a schema."""

from __future__ import annotations

import base64
import json
from functools import partial
from typing import Any

import pyarrow as pa

from paimon_table.errors import MalformedRecord
from sources.avro.connect_schema import connect_struct
from sources.avro.framing import BAD_HEADER
from sources.avro.writer_schema import AvroKind
from sources.debezium_avro.record_reading import KeyFormat, RecordReading
from sources.json_changes.exact_parse import parse_json
from sources.json_changes.outcome import KeyTexts


def avro_key_texts(keys: pa.Array, reading: RecordReading, key_format: KeyFormat) -> KeyTexts:
    """The message keys of a batch that ``reading`` reads."""
    return KeyTexts(keys, partial(_text, reading, key_format))


def _text(reading: RecordReading, key_format: KeyFormat, key: bytes, position: int) -> bytes:
    if key_format == "text":
        return _plain_text(key)
    frames = reading.keys
    code = -1 if frames is None else int(frames.codes[position])
    if frames is None or (code < 0 and key_format == "auto" and code != BAD_HEADER):
        return key
    value = reading.parsed("key", position)
    if value is None or isinstance(value, MalformedRecord):
        raise MalformedRecord(f"the message key cannot be read: {'it is null' if value is None else value}")
    schema = reading.schema(frames, code)
    record = None if isinstance(schema, MalformedRecord) else schema.value
    if record is not None and record.kind is AvroKind.RECORD and isinstance(value, dict):
        return _json({"schema": connect_struct(record), "payload": value})
    return _json(value)


def _plain_text(key: bytes) -> bytes:
    """A key that is text, whatever it looks like; a number stays a number, because the column has the type."""
    try:
        text = key.decode("utf-8")
    except UnicodeDecodeError:
        return key
    try:
        value = parse_json(key)
    except MalformedRecord:
        return _json(text)
    return _json(text) if value is None or isinstance(value, str | dict | list) else key


def _json(value: Any) -> bytes:
    """The text of a value, with bytes in base64."""
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), default=lambda data: base64.b64encode(data).decode()
    ).encode()
