"""Records of Avro topics with one thing wrong: bytes, length, schema, headers, key."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Record = dict[str, Any]

_HEADERS = [
    "__value_schema_id", "__key_schema_id", "apicurio.value.globalId", "apicurio.value.contentId",
    "apicurio.key.globalId", "apicurio.value.encoding", "__debezium.newkey", "other",
]  # fmt: skip
_PREFIX = 5


def mutated_avro(record: Record, r: random.Random) -> Record:
    """A copy of the record with one thing wrong."""
    return r.choice(_WAYS)(dict(record), r)


def changed_bytes(data: bytes, r: random.Random, first: int = 0) -> bytes:
    """The bytes with one bit, or a few of them, lost, doubled or changed."""
    at = r.randrange(first, len(data) + 1)
    end = min(len(data), at + r.choice([1, 1, 2, 8, 60]))
    match r.randrange(7):
        case 0 | 1 if at < len(data):
            return data[:at] + bytes([data[at] ^ (1 << r.randrange(8))]) + data[at + 1 :]
        case 2:
            return data[:at] + data[end:]
        case 3:
            return data[:end] + data[at:]
        case 4:
            return data[:at]
        case 5:
            return data[:at] + r.choice([b"\x00", b"\xff", b"\x80" * 11, b"\xfe\xff\xff\xff\x0f", b"\x02"]) + data[at:]
        case _:
            return data[:at] + r.randbytes(r.choice([1, 4, 30])) + data[end:]


def _body(record: Record, r: random.Random) -> Record:
    return {**record, "value": changed_bytes(record["value"], r, _PREFIX)}


def _anywhere(record: Record, r: random.Random) -> Record:
    return {**record, "value": changed_bytes(record["value"], r)}


def _whole(record: Record, r: random.Random) -> Record:
    data: bytes = record["value"]
    return {**record, "value": r.choice([
        b"", b"\x00", b"\x01", data[_PREFIX:], data + data, data + b"\x00", b"{}", b"null", b"[1", r.randbytes(40),
        b"\x00" * 64, b"\xff" * 64, b"\x00" * 4 + data, b"\x01" + data,
    ])}  # fmt: skip


def _other_schema(record: Record, r: random.Random) -> Record:
    number = r.choice([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 999, 2**31 - 1, 2**32 - 1, r.randrange(2**32)])
    return {**record, "value": number.to_bytes(_PREFIX, "big") + record["value"][_PREFIX:]}


def _header(record: Record, r: random.Random) -> Record:
    values = [
        b"",
        None,
        b"JSON",
        (2).to_bytes(8, "big"),
        (6).to_bytes(8, "big"),
        r.randbytes(8),
        b"\x01" + r.randbytes(16),
    ]
    headers = [{"key": r.choice(_HEADERS), "value": r.choice(values)} for _ in range(r.randrange(1, 3))]
    value = r.choice([record["value"], record["value"][_PREFIX:]])
    return {**record, "headers": headers, "value": value}


def _key(record: Record, r: random.Random) -> Record:
    key = record["key"] or b"\x00\x00\x00\x00\x01\x02"
    keys = [
        None,
        b"",
        b"x",
        b"{}",
        b'{"id":1}',
        b"\x00\x00\x00\x03\xe7",
        changed_bytes(key, r),
        changed_bytes(key, r, len(key) - 1),
    ]
    return {**record, "key": r.choice(keys)}


_WAYS: list[Callable[[Record, random.Random], Record]] = [
    _body, _body, _body, _body, _anywhere, _whole, _other_schema, _header, _key,
]  # fmt: skip
