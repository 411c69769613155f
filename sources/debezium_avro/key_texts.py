"""Message keys of records with Avro values, as JSON texts: Avro keys as JsonConverter writes them, with a schema."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.errors import MalformedRecord
from sources.avro.connect_schema import connect_struct
from sources.avro.framing import BAD_HEADER
from sources.avro.writer_schema import AvroKind
from sources.debezium_avro.record_reading import KeyFormat, RecordReading
from sources.json_changes.exact_parse import parse_json


@dataclass(frozen=True, slots=True)
class AvroKeyTexts:
    """See ``sources.json_changes.outcome.KeyTexts``; NULL also stands for a key that cannot be read."""

    keys: pa.Array
    reading: RecordReading
    key_format: KeyFormat
    _read: dict[int, bytes | MalformedRecord | None] = field(default_factory=dict)

    def texts(self, positions: npt.NDArray[np.int64]) -> pa.Array:
        """See ``sources.json_changes.outcome.KeyTexts``."""
        found = [self._text(position) for position in positions.tolist()]
        return pa.array([None if isinstance(text, MalformedRecord) else text for text in found], pa.binary())

    def problem(self, position: int) -> str | None:
        """Why the key at a position cannot be read; None if it can."""
        found = self._text(position)
        return f"the message key cannot be read: {found}" if isinstance(found, MalformedRecord) else None

    def _text(self, position: int) -> bytes | MalformedRecord | None:
        if position not in self._read:
            key = self.keys[position].as_py()
            try:
                self._read[position] = None if key is None else self._written(key, position)
            except MalformedRecord as error:
                self._read[position] = error
        return self._read[position]

    def _written(self, key: bytes, position: int) -> bytes:
        if self.key_format == "text":
            return _plain_text(key)
        frames = self.reading.keys
        code = -1 if frames is None else int(frames.codes[position])
        if frames is None or (code < 0 and self.key_format == "auto" and code != BAD_HEADER):
            return key
        value = self.reading.parsed("key", position)
        if isinstance(value, MalformedRecord):
            raise value
        if value is None:
            raise MalformedRecord("it is null")
        schema = self.reading.schema(frames, code)
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
