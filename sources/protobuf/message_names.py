"""How a value says which message of its schema it is, in front of the message itself.

indexes, message    a count and as many numbers, all of them zigzag varints: the place in the file, then inside of
                    that message; a single byte 0 stands for the first message (Confluent)
Ref, message        the size of a message of Apicurio's, and that message: the name as its field 1 (Apicurio)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from paimon_table.errors import MalformedRecord

_MOST_INDEXES = 100
_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_.]*")
_NAME_FIELD = b"\x0a"
_UNREADABLE = "the indexes of the message, after the id of its schema, cannot be read"


@dataclass(frozen=True, slots=True)
class MessageRef:
    """Which message of its schema a value is: by index or by name; neither if there is only one candidate."""

    path: tuple[int, ...] | None = None
    name: str | None = None


def indexes_in_front(data: bytes, begin: int) -> tuple[MessageRef, int]:
    """The message at these indexes, and its begin. Raises MalformedRecord."""
    if data[begin : begin + 1] == b"\x00":
        return MessageRef((0,)), begin + 1
    count, begin = _zigzag(data, begin)
    if not 0 < count <= _MOST_INDEXES:
        raise MalformedRecord(_UNREADABLE)
    path = []
    for _ in range(count):
        index, begin = _zigzag(data, begin)
        path.append(index)
    return MessageRef(tuple(path)), begin


def name_in_front(data: bytes, begin: int) -> tuple[MessageRef, int] | None:
    """The message that a Ref names, and its begin; None without a Ref."""
    try:
        size, at = _varint(data, begin)
        length, first = _varint(data, at + 1)
    except MalformedRecord:
        return None
    end = first + length
    is_ref = data[at : at + 1] == _NAME_FIELD and end == at + size <= len(data)
    if not is_ref or not _NAME.fullmatch(data, first, end):
        return None
    return MessageRef(name=data[first:end].decode("ascii")), end


def _zigzag(data: bytes, begin: int) -> tuple[int, int]:
    number, end = _varint(data, begin)
    return (number >> 1) ^ -(number & 1), end


def _varint(data: bytes, begin: int) -> tuple[int, int]:
    number = 0
    for size, byte in enumerate(data[begin : begin + 5]):
        number |= (byte & 0x7F) << 7 * size
        if byte < 0x80:
            return number, begin + size + 1
    raise MalformedRecord(_UNREADABLE)
