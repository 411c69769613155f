"""Reads and writes structs in Thrift's compact protocol, the form of Parquet footers.

Whole numbers stay in the protocol's unsigned form, which ``zigzag`` computes. Writing a struct that was read gives the
same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

I32 = 5
LIST = 9
_TRUE, _FALSE, _BYTE, _I16, _I64, _DOUBLE, _BINARY, _SET, _MAP, _STRUCT = 1, 2, 3, 4, 6, 7, 8, 10, 11, 12
_SHORT_LIST = 15

Struct = dict[int, "Value"]
"""Fields by their id, in the order of the file."""


class BrokenThrift(Exception):
    """The bytes are not a struct of the protocol."""


@dataclass(frozen=True, slots=True)
class Value:
    """``data`` is an int, bytes, a Struct, Items or Entries, as the kind says."""

    kind: int
    data: Any


@dataclass(frozen=True, slots=True)
class Items:
    """A list or set."""

    kind: int
    items: list[Any]


@dataclass(frozen=True, slots=True)
class Entries:
    """A map; an empty one has no kinds."""

    kinds: int
    entries: list[tuple[Any, Any]]


def zigzag(value: int) -> int:
    """The stored form of an i16, i32 or i64."""
    return value << 1 if value >= 0 else (-value << 1) - 1


def read_struct(data: bytes) -> Struct:
    """The struct that the bytes begin with; raises BrokenThrift."""
    return read_struct_from(data)[0]


def read_struct_from(data: bytes) -> tuple[Struct, int]:
    """The struct at the start of the bytes, and its length in bytes; raises BrokenThrift."""
    reader = _Reader(data)
    try:
        return reader.struct(), reader.at
    except IndexError as error:
        raise BrokenThrift("the bytes end early") from error
    except RecursionError as error:
        raise BrokenThrift("structs are nested without end") from error


def struct_bytes(fields: Mapping[int, Value]) -> bytes:
    """The stored form of a struct."""
    out = bytearray()
    _write_struct(out, fields)
    return bytes(out)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def struct(self) -> Struct:
        fields: Struct = {}
        field_id = 0
        while header := self._byte():
            delta, kind = header >> 4, header & 0x0F
            field_id = field_id + delta if delta else unzigzag(self._varint())
            fields[field_id] = Value(kind, kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind))
        return fields

    def _value(self, kind: int) -> Any:
        match kind:
            case 1 | 2 | 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._varint()
            case 7:
                return self._bytes(8)
            case 8:
                return self._bytes(self._varint())
            case 9 | 10:
                header = self._byte()
                count = header >> 4 if header >> 4 < _SHORT_LIST else self._varint()
                return Items(header & 0x0F, [self._value(header & 0x0F) for _ in range(count)])
            case 11:
                count = self._varint()
                kinds = self._byte() if count else 0
                pairs = range(count)
                return Entries(kinds, [(self._value(kinds >> 4), self._value(kinds & 0x0F)) for _ in pairs])
            case 12:
                return self.struct()
        raise BrokenThrift(f"there is no type {kind}")

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _bytes(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self._data):
            raise BrokenThrift("the bytes end early")
        return self._data[self.at - count : self.at]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7


def unzigzag(value: int) -> int:
    """The inverse of ``zigzag``."""
    return value >> 1 if value & 1 == 0 else -(value >> 1) - 1


def _write_struct(out: bytearray, fields: Mapping[int, Value]) -> None:
    previous = 0
    for field_id, value in fields.items():
        delta = field_id - previous
        if 0 < delta <= 0x0F:
            out.append(delta << 4 | value.kind)
        else:
            out.append(value.kind)
            _write_varint(out, zigzag(field_id))
        if value.kind not in (_TRUE, _FALSE):
            _write_value(out, value.kind, value.data)
        previous = field_id
    out.append(0)


def _write_value(out: bytearray, kind: int, data: Any) -> None:
    match kind:
        case 1 | 2 | 3:
            out.append(data)
        case 4 | 5 | 6:
            _write_varint(out, data)
        case 7:
            out += data
        case 8:
            _write_varint(out, len(data))
            out += data
        case 9 | 10:
            _write_items(out, data)
        case 11:
            _write_varint(out, len(data.entries))
            if data.entries:
                out.append(data.kinds)
            for key, value in data.entries:
                _write_value(out, data.kinds >> 4, key)
                _write_value(out, data.kinds & 0x0F, value)
        case _:
            _write_struct(out, data)


def _write_items(out: bytearray, data: Items) -> None:
    count = len(data.items)
    if count < _SHORT_LIST:
        out.append(count << 4 | data.kind)
    else:
        out.append(_SHORT_LIST << 4 | data.kind)
        _write_varint(out, count)
    for item in data.items:
        _write_value(out, data.kind, item)


def _write_varint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
