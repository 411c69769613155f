"""Values that the source did not send: Debezium's placeholder in all its disguises.

PostgreSQL does not log unchanged TOAST values; Debezium writes a placeholder instead. It comes as a string, as bytes
(in JSON as base64), as a UUID made from it, or as an hstore or array that contains it. Arrays of numbers have its
bytes, each as a number of the array's type; JSON columns have an object with it under ``key``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]

_KEY = "key"


@dataclass(frozen=True, slots=True)
class Placeholder:
    """All forms of one placeholder text."""

    strings: frozenset[str]
    code_points: tuple[int, ...]
    numbers: tuple[tuple[int | str | bytes, ...], ...]
    """Of each byte the forms of a number that is it: itself, and a decimal in base64 or in binary."""
    lengths: frozenset[int]
    """The strings as bytes."""

    @property
    def data(self) -> bytes:
        return bytes(self.code_points)

    def is_in(self, value: Any) -> bool:
        """Whether a JSON value is the placeholder."""
        if isinstance(value, str):
            return value in self.strings
        if isinstance(value, bytes):
            return value == self.data
        if isinstance(value, list) and len(value) == 1:
            return isinstance(value[0], str | bytes) and self.is_in(value[0])
        if isinstance(value, list) and len(value) == len(self.code_points):
            return all(_digits_of(item) in forms for item, forms in zip(value, self.numbers, strict=True))
        if isinstance(value, dict) and len(value) == 1:
            ((name, inner),) = value.items()
            return isinstance(inner, str) and inner in self.strings and name in (inner, _KEY)
        return False

    def mask(self, column: pa.Array | list[Any]) -> Mask | None:
        """Which entries are the placeholder; None if none is."""
        if isinstance(column, list):
            found = np.array([self.is_in(value) for value in column], np.bool_)
        elif pa.types.is_string(column.type):
            found = self._strings_mask(column)
        elif pa.types.is_list(column.type):
            found = self._lists_mask(column)
        elif pa.types.is_binary(column.type):
            found = np.asarray(pc.fill_null(pc.equal(column, self.data), False))
        elif pa.types.is_map(column.type):
            found = np.array([self.is_in(v) for v in column.to_pylist(maps_as_pydicts="lossy")], np.bool_)
        else:
            return None
        return found if found.any() else None

    def _strings_mask(self, column: pa.Array) -> Mask:
        lengths = np.diff(np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1])
        if lengths.max(initial=0) < min(self.lengths) or not any((lengths == one).any() for one in self.lengths):
            return np.zeros(len(column), np.bool_)
        return np.asarray(pc.is_in(column, value_set=pa.array(sorted(self.strings))))

    def _lists_mask(self, column: pa.Array) -> Mask:
        lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0))
        found = np.zeros(len(column), np.bool_)
        for position in np.flatnonzero((lengths == 1) | (lengths == len(self.code_points))):
            found[position] = self.is_in(column[int(position)].as_py())
        return found


def _digits_of(item: Any) -> Any:
    """The digits of a number of variable scale, any other element itself."""
    return item.get("value") if isinstance(item, dict) else item


def placeholder(text: str) -> Placeholder:
    """The forms of Debezium's ``unavailable.value.placeholder``."""
    data = text.encode("utf-8")
    digest = bytearray(hashlib.md5(data, usedforsecurity=False).digest())
    name_uuid = uuid.UUID(bytes=bytes(digest), version=3)
    encoded = base64.b64encode(data).decode("ascii")
    as_map = json.dumps({text: text}, ensure_ascii=False, separators=(",", ":"))
    as_objects = (json.dumps({_KEY: text}, ensure_ascii=False, separators=(",", colon)) for colon in (":", ": "))
    strings = frozenset({text, encoded, str(name_uuid), as_map, *as_objects})
    numbers = tuple((byte, base64.b64encode(bytes([byte])).decode("ascii"), bytes([byte])) for byte in data)
    return Placeholder(strings, tuple(data), numbers, frozenset(len(string.encode()) for string in strings))
