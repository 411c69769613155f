"""Message keys of plain records as JSON objects, whatever serializer wrote them.

Only necessary keys are read: those of deletes, and those of rows that lack a column of the primary key.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.errors import MalformedRecord
from sources.debezium_json.envelopes import unwrapped_key
from sources.decode_target import KeyFields
from sources.json_changes.exact_parse import parse_json
from sources.json_changes.outcome import KeyTexts
from sources.plain.options import PlainOptions
from sources.values.json_values import json_text

Positions = npt.NDArray[np.int64]

_INTEGERS = {"int": 4, "long": 8}


@dataclass(frozen=True, slots=True)
class OwnKey:
    """A key of the format's own serializer: its value, and of one with names the Kafka Connect struct."""

    value: Any
    struct: Mapping[str, Any] | None


class OwnKeys(Protocol):
    """Reads keys that a format's own serializer has written."""

    def at(self, position: int) -> OwnKey | None:
        """The key at a position; None for one of another serializer. Raises MalformedRecord."""
        ...


class NoKeys:
    """Says that no record has a message key: plain rows do not need one."""

    def __init__(self) -> None:
        self.fields: list[KeyFields] = [None]

    def codes(self, positions: Positions) -> npt.NDArray[np.int32]:
        return np.zeros(len(positions), np.int32)


def plain_keys(keys: pa.Array, options: PlainOptions, own: OwnKeys | None) -> KeyTexts:
    """The message keys of a batch: JSON objects, or plain JSON values where no column is known for them."""
    if options.key_format == "none":
        keys = pa.nulls(len(keys), pa.binary())
    are_texts = options.key_format == "auto" and options.key_column is None and own is None
    return KeyTexts(keys, _PlainKey(options, own).text, are_texts=are_texts)


@dataclass(frozen=True, slots=True)
class _PlainKey:
    options: PlainOptions
    own: OwnKeys | None

    def text(self, key: bytes, position: int) -> bytes:
        return self._own(position) or self._written(key)

    def _own(self, position: int) -> bytes | None:
        """A key of the format's own serializer, as JsonConverter writes one; None for another."""
        is_asked = self.own is not None and self.options.key_format in ("auto", "avro")
        found = self.own.at(position) if self.own is not None and is_asked else None
        if found is None:
            return None
        if found.struct is None:
            return self._named(found.value)
        return _json({"schema": found.struct, "payload": found.value})

    def _written(self, key: bytes) -> bytes:
        match self.options.key_format:
            case "avro":
                raise MalformedRecord("the message key names no schema, so it is not Avro; set its key_format")
            case "string":
                return self._named(_utf8(key))
            case "int" | "long" as kind:
                if len(key) != _INTEGERS[kind]:
                    raise MalformedRecord(
                        f"the message key has {len(key)} bytes, and one of `{kind}` has {_INTEGERS[kind]}: set the "
                        "key_format of the producer's serializer"
                    )
                return self._named(int.from_bytes(key, "big", signed=True))
            case "bytes":
                return self._of_bytes(key)
            case "json":
                try:
                    value = parse_json(key)
                except MalformedRecord as error:
                    raise MalformedRecord(f"the message key is not JSON ({error}); set its key_format") from None
                return key if isinstance(unwrapped_key(value), dict) else self._named(unwrapped_key(value))
            case _:
                return self._guessed(key)

    def _guessed(self, key: bytes) -> bytes:
        text = _utf8(key)
        try:
            parsed = parse_json(key)
        except MalformedRecord:
            return self._named(text)
        value = unwrapped_key(parsed)
        if isinstance(value, dict):
            return key
        # Texts such as 1e3 and -0 are numbers too; a number that JSON writes in another way stays a text.
        is_other_text = not isinstance(parsed, (dict, str)) and json_text(value) != text
        return self._named(text if is_other_text else value)

    def _named(self, value: Any) -> bytes:
        text = json_text(value) if not isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        column = self.options.key_column
        return (text if column is None else f"{{{json.dumps(column, ensure_ascii=False)}:{text}}}").encode()

    def _of_bytes(self, key: bytes) -> bytes:
        """As JsonConverter writes a struct with one field of bytes."""
        text = base64.b64encode(key).decode()
        column = self.options.key_column
        if column is None:
            return self._named(text)
        of_column = {"field": column, "type": "bytes", "optional": False}
        return _json({"schema": {"type": "struct", "fields": [of_column]}, "payload": {column: text}})


def _json(wrapper: Mapping[str, Any]) -> bytes:
    """The text of a schema and a payload, with bytes in base64."""
    text = json.dumps(
        wrapper, ensure_ascii=False, separators=(",", ":"), default=lambda data: base64.b64encode(data).decode()
    )
    return text.encode()


def _utf8(key: bytes) -> str:
    try:
        return key.decode("utf-8")
    except UnicodeDecodeError:
        raise MalformedRecord("the message key is not UTF-8 text; set its key_format") from None
