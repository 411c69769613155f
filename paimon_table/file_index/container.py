"""The container of all indexes of one data file, embedded in the manifest or in an ``.index`` file.

Implements version 1 of Paimon's file index format: a head with columns, index types and places, then the bodies.
Numbers are big-endian; texts are Java's modified UTF-8 with two bytes of length.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

MAGIC = 1_493_475_289_347_502
VERSION = 1
_NO_INDEX = -1
_PREFIX = struct.Struct(">qii")
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">H")


class DamagedIndex(Exception):
    """The bytes are not a file index of a known version."""


def write_container(indexes: Mapping[str, Mapping[str, bytes]]) -> bytes:
    """The container of ``{column: {type of index: body}}``."""
    head_bytes = _PREFIX.size + 2 * _INT.size
    for column, by_type in indexes.items():
        head_bytes += len(_text(column)) + _INT.size
        head_bytes += sum(len(_text(kind)) + 2 * _INT.size for kind in by_type)
    head = [_PREFIX.pack(MAGIC, VERSION, head_bytes), _INT.pack(len(indexes))]
    bodies: list[bytes] = []
    position = head_bytes
    for column, by_type in indexes.items():
        head += (_text(column), _INT.pack(len(by_type)))
        for kind, body in by_type.items():
            head += (_text(kind), _INT.pack(position if body else _NO_INDEX), _INT.pack(len(body)))
            bodies.append(body)
            position += len(body)
    return b"".join([*head, _INT.pack(0), *bodies])


def read_container(data: bytes) -> dict[str, dict[str, bytes]]:
    """``{column: {type of index: body}}``; raises DamagedIndex for anything else."""
    try:
        return _read(data)
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise DamagedIndex(str(error)) from error


def _read(data: bytes) -> dict[str, dict[str, bytes]]:
    magic, version, _ = _PREFIX.unpack_from(data)
    if (magic, version) != (MAGIC, VERSION):
        raise DamagedIndex(f"it begins with {magic:#x}, version {version}")
    position = _PREFIX.size
    (columns,) = _INT.unpack_from(data, position)
    position += _INT.size
    indexes: dict[str, dict[str, bytes]] = {}
    for _ in range(columns):
        column, position = _read_text(data, position)
        (count,) = _INT.unpack_from(data, position)
        position += _INT.size
        by_type = indexes.setdefault(column, {})
        for _ in range(count):
            kind, position = _read_text(data, position)
            (start,) = _INT.unpack_from(data, position)
            (length,) = _INT.unpack_from(data, position + _INT.size)
            position += 2 * _INT.size
            body = b"" if start == _NO_INDEX else data[start : start + length]
            if len(body) != (0 if start == _NO_INDEX else length):
                raise DamagedIndex("it ends early")
            by_type[kind] = body
    return indexes


def _text(text: str) -> bytes:
    encoded = _modified_utf8(text)
    return _SHORT.pack(len(encoded)) + encoded


def _read_text(data: bytes, position: int) -> tuple[str, int]:
    (length,) = _SHORT.unpack_from(data, position)
    start = position + _SHORT.size
    return _from_modified_utf8(data[start : start + length]), start + length


def _modified_utf8(text: str) -> bytes:
    """UTF-8 of the UTF-16 code units, with two bytes for NUL."""
    units = text.encode("utf-16-be", "surrogatepass")
    chars = (chr(int.from_bytes(units[i : i + 2], "big")) for i in range(0, len(units), 2))
    return b"".join(b"\xc0\x80" if c == "\0" else c.encode("utf-8", "surrogatepass") for c in chars)


def _from_modified_utf8(data: bytes) -> str:
    surrogates = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return surrogates.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
