"""One Avro value as a Python value, with checked bounds: the reference for the vectorised columns.

Numbers of 32-bit floating point keep the digits of their shortest text (``1.1``), as in JSON. Bytes are ``bytes``;
records and maps are dictionaries, records under the names of ``column_names``.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from paimon_table.errors import MalformedRecord
from sources.avro.column_names import column_names
from sources.avro.writer_schema import AvroKind, Node

_MOST_VARINT_BYTES = 10
_MOST_LEVELS = 200


def exact_value(node: Node, data: bytes, start: int = 0) -> Any:
    """The value that fills ``data`` from ``start`` on. Raises MalformedRecord."""
    reader = _Reader(data, start)
    value = reader.read(node, 0)
    if reader.at != len(data):
        left = len(data) - reader.at
        raise MalformedRecord(f"{left} byte{'s are' if left > 1 else ' is'} left after the value")
    return value


def exact_part(node: Node, data: bytes) -> tuple[Any, int]:
    """The value at the beginning of ``data``, and its length. Raises MalformedRecord."""
    reader = _Reader(data, 0)
    return reader.read(node, 0), reader.at


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self.at = at

    def read(self, node: Node, level: int) -> Any:
        if level > _MOST_LEVELS:
            raise MalformedRecord(f"value is nested deeper than {_MOST_LEVELS} levels")
        match node.kind:
            case AvroKind.NULL:
                return None
            case AvroKind.BOOLEAN:
                return self._boolean()
            case AvroKind.INT | AvroKind.LONG:
                return self._number()
            case AvroKind.FLOAT:
                return shortest(struct.unpack("<f", self._taken(4))[0])
            case AvroKind.DOUBLE:
                return struct.unpack("<d", self._taken(8))[0]
            case AvroKind.BYTES:
                return self._taken(self._number())
            case AvroKind.STRING:
                return self._text()
            case AvroKind.FIXED:
                return self._taken(node.size)
            case AvroKind.ENUM:
                return node.symbols[self._index(len(node.symbols), "enum")]
            case AvroKind.UNION:
                return self.read(node.parts[self._index(len(node.parts), "union")], level + 1)
            case AvroKind.ARRAY:
                return self._items(node.parts[0], level)
            case AvroKind.MAP:
                return self._entries(node.parts[0], level)
            case AvroKind.RECORD:
                values = [self.read(f.node, level + 1) for f in node.fields]
                return dict(zip(column_names(node), values, strict=True))

    def _taken(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self.at:
            raise MalformedRecord(
                f"value at byte {self.at} has a length of {size}, which is beyond the end of its record"
            )
        self.at += size
        return self._data[self.at - size : self.at]

    def _number(self) -> int:
        number = 0
        for position in range(_MOST_VARINT_BYTES):
            byte = self._taken(1)[0]
            number |= (byte & 0x7F) << 7 * position
            if byte < 0x80:
                if number >> 64:
                    break
                return (number >> 1) ^ -(number & 1)
        raise MalformedRecord(f"the number that ends at byte {self.at} has more than 64 bits")

    def _boolean(self) -> bool:
        byte = self._taken(1)[0]
        if byte > 1:
            raise MalformedRecord(f"byte {self.at - 1} is {byte}, but the schema has a boolean there")
        return byte == 1

    def _text(self) -> str:
        data = self._taken(self._number())
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise MalformedRecord(f"the text that ends at byte {self.at} is not UTF-8") from None

    def _index(self, count: int, what: str) -> int:
        index = self._number()
        if not 0 <= index < count:
            raise MalformedRecord(f"{what} at byte {self.at - 1} has no branch {index}")
        return index

    def _items(self, item: Node, level: int) -> list[Any]:
        items: list[Any] = []
        while count := self._count():
            items += [self.read(item, level + 1) for _ in range(count)]
        return items

    def _entries(self, value: Node, level: int) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        while count := self._count():
            for _ in range(count):
                key = self._text()
                entries[key] = self.read(value, level + 1)
        return entries

    def _count(self) -> int:
        """How many items follow; a negative count is followed by the size of the items."""
        count = self._number()
        if count < 0:
            count = -count
            self._number()
        if count > len(self._data) - self.at:
            raise MalformedRecord(f"an array at byte {self.at} has more items than bytes")
        return count


def shortest(number: float) -> float:
    """The 64-bit number that reads as a 32-bit one is written."""
    return float(str(np.float32(number)))
