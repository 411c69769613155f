"""Decoders of Avro records, made for one schema each: Python functions whose source follows the schema.

A general decoder asks at every value what it is and takes its bytes from a stream one by one. Metadata of tables with
very many files is a hundred thousand small records of one schema; a function that knows the schema and cuts the bytes
of a block takes a third of the time. What comes out is what ``fastavro`` gives for schemas without logical types.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

DecodeRecord = Callable[[bytes, int], tuple[Any, int]]
"""From the bytes of a block and the place of a record to its value and the place behind it.

IndexError, ValueError, OverflowError or UnicodeDecodeError for bytes that are no such record; a place behind the end of
the bytes says the same.
"""

_INDENT = "    "


@lru_cache(maxsize=32)
def record_decoder(schema_text: str) -> DecodeRecord | None:
    """The decoder of a schema, given as JSON text without logical types; None for what it may not hold."""
    source = _Source()
    try:
        value = source.read(json.loads(schema_text), 1)
    except _Unsupported:
        return None
    lines = ["def decode(data, at):", *source.lines, f"{_INDENT}return {value}, at"]
    names: dict[str, Any] = {"more": _more}
    # The text is ours alone: of the file's schema it has the names of fields, as literals.
    exec(compile("\n".join(lines), "<decoder of an Avro schema>", "exec"), names)
    decoder: DecodeRecord = names["decode"]
    return decoder


class _Unsupported(Exception):
    """The schema has a type that is in no metadata."""


def _more(data: bytes, at: int, number: int) -> tuple[int, int]:
    """The rest of a number of more than two bytes, as it is stored, and the place behind it."""
    for shift in range(14, 70, 7):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise ValueError("a number of more than ten bytes")


class _Source:
    """The statements of a decoder, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: Iterator[str] = (f"v{number}" for number in itertools.count())

    def read(self, schema: Any, depth: int) -> str:
        """Add what reads one value; gives the expression that is the value then."""
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

    def _add(self, depth: int, *lines: str) -> None:
        self.lines += [_INDENT * depth + line for line in lines]

    def _kept(self, expression: str, depth: int) -> str:
        name = next(self._names)
        self._add(depth, f"{name} = {expression}")
        return name

    def _stored(self, depth: int) -> None:
        """The next number as it is stored, sign in the lowest bit, in ``n``."""
        self._add(depth, "n = data[at]; at += 1", "if n > 127:")
        self._add(
            depth + 1, "b = data[at]; at += 1; n = n & 127 | (b & 127) << 7", "if b > 127: n, at = more(data, at, n)"
        )

    def _number(self, depth: int) -> str:
        self._stored(depth)
        return self._kept("(n >> 1) ^ -(n & 1)", depth)

    def _bytes(self, depth: int, *, is_text: bool) -> str:
        self._stored(depth)
        self._add(depth, "if n & 1: raise ValueError('a negative length')", "start = at; at += n >> 1")
        return self._kept("data[start:at]" + (".decode()" if is_text else ""), depth)

    def _union(self, branches: list[Any], depth: int) -> str:
        value = next(self._names)
        self._stored(depth)
        for number, branch in enumerate(branches):
            self._add(depth, f"{'elif' if number else 'if'} n == {2 * number}:")
            self._add(depth + 1, f"{value} = {self.read(branch, depth + 1)}")
        self._add(depth, "else: raise ValueError('no such branch of a union')")
        return value

    def _array(self, items: Any, depth: int) -> str:
        value, left = next(self._names), next(self._names)
        self._add(depth, f"{value} = []", "while True:")
        self._stored(depth + 1)
        self._add(depth + 1, "if n == 0: break", f"{left} = n >> 1")
        self._add(depth + 1, "if n & 1:")
        self._add(depth + 2, f"{left} = (n + 1) >> 1")
        self._stored(depth + 2)
        self._add(depth + 1, f"if {left} > len(data): raise ValueError('more items than bytes')")
        if items == ["null", "long"]:
            # Counts of nulls, one for each column: most are 0.
            self._add(depth + 1, f"if data[at : at + 2 * {left}] == b'\\x02\\x00' * {left}:")
            self._add(depth + 2, f"{value} += [0] * {left}; at += 2 * {left}", "continue")
        self._add(depth + 1, f"for _ in range({left}):")
        self._add(depth + 2, f"{value}.append({self.read(items, depth + 2)})")
        return value
