"""Decoders of Avro records, each for one schema: generated Python functions whose source follows the schema.

A general decoder checks the type of every value and reads its bytes from a stream one by one. Metadata of tables with
very many files has a hundred thousand small records of one schema. A function for this schema that slices the bytes of
a block takes a third of the time. The results equal those of ``fastavro`` for schemas without logical types.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

DecodeRecord = Callable[[bytes, int], tuple[Any, int]]
"""Takes the bytes of a block and the place of a record; returns its value and the place after it.

Raises IndexError, ValueError, OverflowError or UnicodeDecodeError for bytes that are not such a record. A place beyond
the end of the bytes means the same.
"""

_INDENT = "    "


Path = tuple[str, ...]
"""The names of the fields that lead to a value of a record."""

DecodeRows = Callable[[bytes, int], tuple[list[Any], int]]
"""Takes the bytes of a block and its number of records; returns the rows and the place after them. Errors as above."""


@lru_cache(maxsize=32)
def record_decoder(schema_text: str) -> DecodeRecord | None:
    """The decoder of a schema, given as JSON text without logical types; None for unsupported schemas."""
    source = _Source("list")
    try:
        value = source.read(json.loads(schema_text), 1)
    except _Unsupported:
        return None
    lines = ["def decode(data, at):", *source.lines, f"{_INDENT}return {value}, at"]
    decoder: DecodeRecord = _compiled(lines, {})
    return decoder


@lru_cache(maxsize=32)
def row_decoder(
    schema_text: str, row: type[tuple[Any, ...]], paths: tuple[Path, ...], optional: frozenset[str]
) -> DecodeRows | None:
    """As ``record_decoder``, of records as named tuples ``row`` with the values at the paths; arrays are tuples.

    Raises KeyError if the schema lacks a path, unless it ends in an ``optional`` name: its value is None then.
    """
    source = _Source("tuple")
    try:
        found = dict(source.leaves(json.loads(schema_text), 2))
    except _Unsupported:
        return None
    if any(path[:length] in found for path in paths for length in range(1, len(path))):
        return None  # a record that may be null
    values = [found.get(path, "None") if path[-1] in optional else found[path] for path in paths]
    lines = [
        "def decode(data, count):",
        f"{_INDENT}rows, at = [], 0",
        f"{_INDENT}for _ in range(count):",
        *source.lines,
        f"{_INDENT * 2}rows.append(new(row, ({', '.join(values)},)))",
        f"{_INDENT}return rows, at",
    ]
    decoder: DecodeRows = _compiled(lines, {"new": tuple.__new__, "row": row})
    return decoder


def _compiled(lines: Sequence[str], names: dict[str, Any]) -> Any:
    names |= {"more": _more, "zeros": _ZEROS, "zeros_of": _ZEROS_OF}
    # The text is safe: from the file's schema it has only the names of fields, as literals.
    exec(compile("\n".join(lines), "<decoder of an Avro schema>", "exec"), names)
    return names["decode"]


class _Unsupported(Exception):
    """The schema has a type that is in no metadata."""


_INLINE_BYTES = 6
"""The bytes of a number that are read without a call: sizes, counts and times have no more."""


def _more(data: bytes, at: int, number: int) -> tuple[int, int]:
    """The stored form of a number of more than ``_INLINE_BYTES``, and the place after it."""
    for shift in range(7 * _INLINE_BYTES, 70, 7):
        byte = data[at]
        at += 1
        number += byte - 1 << shift
        if byte < 0x80:
            return number, at
    raise ValueError("a number of more than ten bytes")


class _Source:
    """The statements of a decoder, in order."""

    def __init__(self, array_type: str) -> None:
        """``array_type`` is the name of the type that arrays become."""
        self._array_type = array_type
        self.lines: list[str] = []
        self._names: Iterator[str] = (f"v{number}" for number in itertools.count())

    def read(self, schema: Any, depth: int) -> str:
        """Add statements that read one value; returns the expression of the value."""
        if isinstance(schema, list):
            return self._union(schema, depth)
        kind = schema["type"] if isinstance(schema, dict) else schema
        match kind:
            case "null":
                return "None"
            case "int" | "long":
                return self._number(depth)
            case "bytes" | "string":
                return self._bytes(depth, is_text=kind == "string")
            case "array":
                return self._array(schema["items"], depth)
            case "record":
                values = [(field["name"], self.read(field["type"], depth)) for field in schema["fields"]]
                return self._kept("{" + ", ".join(f"{name!r}: {value}" for name, value in values) + "}", depth)
            case _:
                raise _Unsupported

    def leaves(self, schema: Any, depth: int, above: Path = ()) -> Iterator[tuple[Path, str]]:
        """Add statements that read a record; returns the expressions of its values and of nested ones, by path."""
        if not isinstance(schema, dict) or schema["type"] != "record":
            raise _Unsupported
        for field in schema["fields"]:
            path, inner = (*above, field["name"]), field["type"]
            if isinstance(inner, dict) and inner["type"] == "record":
                yield from self.leaves(inner, depth, path)
            else:
                yield path, self.read(inner, depth)

    def _add(self, depth: int, *lines: str) -> None:
        self.lines += [_INDENT * depth + line for line in lines]

    def _kept(self, expression: str, depth: int) -> str:
        name = next(self._names)
        self._add(depth, f"{name} = {expression}")
        return name

    def _stored(self, depth: int) -> None:
        """Read the stored form of the next number, with the sign in the lowest bit, into ``n``."""
        self._add(depth, "n = data[at]; at += 1", "if n > 127:")
        for position in range(1, _INLINE_BYTES):
            # The highest bit of the byte before marks that this one follows, and is subtracted again.
            inside = depth + position
            self._add(inside, f"b = data[at]; at += 1; n += b - 1 << {7 * position}", "if b > 127:")
        self._add(depth + _INLINE_BYTES, "n, at = more(data, at, n)")

    def _number(self, depth: int) -> str:
        self._stored(depth)
        return self._kept("(n >> 1) ^ -(n & 1)", depth)

    def _bytes(self, depth: int, *, is_text: bool) -> str:
        self._stored(depth)
        self._add(depth, "if n & 1: raise ValueError('a negative length')", "start = at; at += n >> 1")
        return self._kept("data[start:at]" + (".decode()" if is_text else ""), depth)

    def _union(self, branches: list[Any], depth: int) -> str:
        value = next(self._names)
        self._add(depth, "n = data[at]; at += 1")
        for number, branch in enumerate(branches):
            self._add(depth, f"{'elif' if number else 'if'} n == {2 * number}:")
            self._add(depth + 1, f"{value} = {self.read(branch, depth + 1)}")
        self._add(depth, "else: raise ValueError('no such branch of a union')")
        return value

    def _array(self, items: Any, depth: int) -> str:
        value, left, array = next(self._names), next(self._names), self._array_type
        self._add(depth, "n = data[at]", "if n == 0:")
        self._add(depth + 1, f"{value} = {array}(); at += 1")
        if items == ["null", "long"]:
            # Null counts, one for each column: most are 0.
            self._add(depth, "elif data[at + 1 : at + n + 2] == zeros[n]:")
            self._add(depth + 1, f"{value} = {array}(zeros_of[n]); at += n + 2")
        self._add(depth, "else:")
        self._add(depth + 1, f"{value} = []", "while True:")
        self._stored(depth + 2)
        self._add(depth + 2, "if n == 0: break", f"{left} = n >> 1")
        self._add(depth + 2, "if n & 1:")
        self._add(depth + 3, f"{left} = (n + 1) >> 1")
        self._stored(depth + 3)
        self._add(depth + 2, f"if {left} > len(data): raise ValueError('more items than bytes')")
        self._add(depth + 2, f"for _ in range({left}):")
        self._add(depth + 3, f"{value}.append({self.read(items, depth + 3)})")
        if array != "list":
            self._add(depth + 1, f"{value} = {array}({value})")
        return value


_ZEROS_OF = [(0,) * (byte >> 1) for byte in range(128)] + [()] * 128
"""By the first byte of an array, if this byte alone is its number of items: that many zeros."""

_ZEROS = [
    b"\x02\x00" * len(zeros) + b"\x00" if zeros and byte % 2 == 0 else None for byte, zeros in enumerate(_ZEROS_OF)
]
"""Their stored form after that byte, up to the end of the array; None for another array."""
