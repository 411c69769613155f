"""The field names of message keys, without parsing every key.

The keys of one source table are alike: JSON objects with the same names, or the same embedded schema in front. One key
is parsed, all that look like it are found with vector operations, and so on with the next one that does not.

A text without backslash that has n names begins with the first one, holds the others behind commas, and has two quotes
per name and two more per ``":"``: then it is an object of these names and no others.
"""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import MalformedRecord
from sources.debezium_json.envelopes import unwrapped
from sources.debezium_json.exact_parse import parse_json

KeyFields = tuple[str, ...] | None
"""The names of a key's fields in their order; none for a key that is no JSON object; None where there is no key."""

_MOST_SHAPES = 64
_PAYLOAD = b'"payload":'
_SCHEMA = b'{"schema":'


def fields_of_key(key: bytes | None) -> KeyFields:
    """The fields of one message key, parsed exactly."""
    if key is None:
        return None
    try:
        value = unwrapped(parse_json(key))
    except MalformedRecord:
        return ()
    return tuple(value) if isinstance(value, dict) else ()


class MessageKeys:
    """The keys of a batch. ``fields[codes(positions)[i]]`` are the fields of the key at a position."""

    def __init__(self, keys: pa.Array) -> None:
        self.fields: list[KeyFields] = []
        self._keys = keys if pa.types.is_binary(keys.type) else keys.cast(pa.binary())
        self._codes: npt.NDArray[np.int32] | None = None

    def codes(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Per position the index of its key's fields."""
        if self._codes is None:
            self._codes = self._told()
        return self._codes[positions]

    def _told(self) -> npt.NDArray[np.int32]:
        codes = np.full(len(self._keys), -1, np.int32)
        if self._keys.null_count:
            codes[np.asarray(self._keys.is_null())] = self._code(None)
        rest = np.flatnonzero(codes < 0)
        keys = self._keys if len(rest) == len(codes) else self._keys.take(pa.array(rest))
        for _ in range(_MOST_SHAPES):
            if not len(rest):
                return codes
            first = keys[0].as_py()
            fields = fields_of_key(first)
            alike = _alike(keys, first, fields)
            alike[0] = True
            codes[rest[alike]] = self._code(fields)
            if alike.all():
                return codes
            rest, keys = rest[~alike], keys.filter(pa.array(~alike))
        for index, key in zip(rest.tolist(), keys.to_pylist(), strict=True):
            codes[index] = self._code(fields_of_key(key))
        return codes

    def _code(self, fields: KeyFields) -> int:
        if fields not in self.fields:
            self.fields.append(fields)
        return self.fields.index(fields)


def _alike(keys: pa.Array, sample: bytes, fields: KeyFields) -> npt.NDArray[np.bool_]:
    """Which keys have the fields of ``sample`` for sure."""
    if not fields:
        return np.zeros(len(keys), np.bool_)
    payload = sample.find(_PAYLOAD)
    if sample.startswith(_SCHEMA):
        prefix = sample[: payload + len(_PAYLOAD)]
        return np.asarray(pc.starts_with(keys, prefix)) if payload > 0 else np.zeros(len(keys), np.bool_)
    names = [json.dumps(name, ensure_ascii=False).encode() for name in fields]
    gap = b" " if sample.startswith(b"{" + names[0] + b": ") else b""
    alike = pc.starts_with(keys, b"{" + names[0] + b":" + gap)
    for name in names[1:]:
        alike = pc.and_(alike, pc.match_substring(keys, b"," + gap + name + b":"))
    data = _bytes_of(keys)
    if (data == ord("\\")).any():
        alike = pc.and_(alike, pc.invert(pc.match_substring(keys, b"\\")))
    least_quotes = 2 * len(names)
    if pc.all(alike).as_py() and np.count_nonzero(data == ord('"')) == least_quotes * len(keys):
        return np.ones(len(keys), np.bool_)
    texts = pc.count_substring(keys, b'":' + gap + b'"')
    quotes = pc.count_substring(keys, b'"')
    as_many = np.equal(np.asarray(quotes), least_quotes + 2 * np.asarray(texts))
    found: npt.NDArray[np.bool_] = np.logical_and(as_many, np.asarray(alike))
    return found


def _bytes_of(texts: pa.Array) -> npt.NDArray[np.uint8]:
    first, last = np.frombuffer(texts.buffers()[1], np.int32)[[texts.offset, texts.offset + len(texts)]].tolist()
    return np.frombuffer(texts.buffers()[2], np.uint8)[first:last]
