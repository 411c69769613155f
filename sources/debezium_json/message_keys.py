"""The field names of message keys, without parsing every key.

The keys of one source table are alike: JSON objects with the same names, or the same embedded schema in front. One key
is parsed exactly and gives a regular expression that finds all keys like it. The expression matches JSON texts with the
same names in the same order, each with a number, a string without \\u, true, false or null. A key that it does not
match is parsed exactly too, and may give the next expression.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import MalformedRecord
from sources.debezium_json.envelopes import unwrapped_key
from sources.decode_target import KeyFields
from sources.json_changes.exact_parse import parse_json, scan_json

Mask = npt.NDArray[np.bool_]

_MOST_SHAPES = 64
_SCHEMA = b'{"schema":'
_PAYLOAD = b',"payload":'
_WRAPPER = re.compile(rb'\{"payload": ?(?=\{)')
"""How a key begins that is wrapped without a schema."""
_LONGEST = 4000
"""Longer keys are parsed exactly: Python reads no numbers of more digits than about this many."""
_NUMBER = rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?"
_ESCAPED = rb'\\["\\/bfnrt]'
_TEXT = rb'"(?:[^"\\\x00-\x1f]|' + _ESCAPED + rb')*"'
_ASCII_TEXT = rb'"(?:[ !#-\[\]-~]|' + _ESCAPED + rb')*"'


def fields_of_key(key: bytes | None) -> KeyFields:
    """The fields of one message key, parsed exactly."""
    if key is None:
        return None
    try:
        value = unwrapped_key(parse_json(key))
    except MalformedRecord:
        return ()
    return tuple(value) if isinstance(value, dict) else ()


@dataclass(frozen=True, slots=True)
class _Shape:
    """Keys whose object is as ``pattern`` says, with the embedded schema in ``prefix`` around it if there is one."""

    prefix: bytes
    pattern: bytes

    def matches(self, keys: pa.Array) -> Mask:
        found: Mask = np.ones(len(keys), np.bool_)
        if self.prefix:
            found = np.array(pc.and_(pc.starts_with(keys, self.prefix), pc.ends_with(keys, b"}")))
            keys = pc.binary_slice(keys if found.all() else keys.filter(pa.array(found)), len(self.prefix), -1)
        like = np.asarray(pc.match_substring_regex(keys, self.pattern))
        if (pc.max(pc.binary_length(keys)).as_py() or 0) > _LONGEST:
            like = like & (np.asarray(pc.binary_length(keys)) <= _LONGEST)
        found[found] = like
        return found


def _shape_of(key: bytes | None, fields: KeyFields, are_utf8: bool) -> _Shape | None:
    """The pattern of keys that certainly have the ``fields`` of ``key``; None if only an exact parse can decide."""
    if not key or not fields:
        return None
    prefix = b""
    if key.startswith(_SCHEMA):
        text = key.decode("utf-8")
        try:
            prefix = text[: scan_json(text, len(_SCHEMA))[1]].encode() + _PAYLOAD
        except MalformedRecord:
            return None
        if not key.startswith(prefix):
            return None
    elif {*fields} <= {"schema", "payload"}:
        return None
    elif wrapper := _WRAPPER.match(key):
        prefix = wrapper[0]
    value = rb"(?:" + _NUMBER + b"|" + (_TEXT if are_utf8 else _ASCII_TEXT) + rb"|true|false|null)"
    names = [re.escape(json.dumps(name, ensure_ascii=False).encode()) for name in fields]
    pattern = rb"\A\{" + b", ?".join(name + b": ?" + value for name in names) + rb"\}\z"
    return _Shape(prefix, pattern) if len(pattern) <= _LONGEST else None


class KeyForms(Protocol):
    """The facts about the keys of a batch; see ``MessageKeys``."""

    @property
    def fields(self) -> list[KeyFields]: ...
    def codes(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]: ...


def by_form(codes: npt.NDArray[np.int32], fields: Sequence[KeyFields]) -> Iterator[tuple[KeyFields, Mask]]:
    """The forms that keys have by their ``codes``, each with the keys that have it."""
    for code in [0] if len(fields) == 1 else np.unique(codes).tolist():
        yield fields[code], codes == code


def which(keys: KeyForms, positions: npt.NDArray[np.int64], test: Callable[[KeyFields], bool]) -> Mask:
    """The positions whose key has fields that pass a test; each form of key is tested once."""
    codes, fields = keys.codes(positions), keys.fields
    if len(fields) == 1:
        return np.full(len(codes), test(fields[0]), np.bool_)
    present, index = np.unique(codes, return_inverse=True)
    passed: Mask = np.array([test(fields[code]) for code in present.tolist()], np.bool_)[index]
    return passed


class MessageKeys:
    """The keys of a batch. ``fields[codes(positions)[i]]`` are the fields of the key at a position."""

    def __init__(self, keys: pa.Array) -> None:
        self.fields: list[KeyFields] = []
        self._code_of: dict[KeyFields, int] = {}
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
        are_utf8 = _are_utf8(keys)
        tried: set[_Shape] = set()
        while len(rest):
            shape, code, parsed = None, -1, 0
            while shape is None and parsed < len(rest):
                key = keys[parsed].as_py()
                fields = fields_of_key(key)
                codes[rest[parsed]] = code = self._code(fields)
                parsed += 1
                shape = _shape_of(key, fields, are_utf8) if len(tried) < _MOST_SHAPES else None
                shape = None if shape in tried else shape
            rest, keys = rest[parsed:], keys[parsed:]
            if shape is None or not len(rest):
                break
            tried.add(shape)
            alike = shape.matches(keys)
            codes[rest[alike]] = code
            if alike.all():
                break
            rest, keys = rest[~alike], keys.filter(pa.array(~alike))
        return codes

    def _code(self, fields: KeyFields) -> int:
        code = self._code_of.setdefault(fields, len(self.fields))
        if code == len(self.fields):
            self.fields.append(fields)
        return code


def _are_utf8(keys: pa.Array) -> bool:
    try:
        keys.cast(pa.string())
        return True
    except pa.ArrowInvalid:
        return False
