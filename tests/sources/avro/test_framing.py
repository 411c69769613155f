"""Which schema a record names: by its headers, else by the bytes in front."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from sources.avro.framing import BAD_HEADER, NULL, UNFRAMED, Framing, RefKind, SchemaRef
from sources.changes import RECORD_SCHEMA

GUID = uuid.UUID("89791762-2336-4186-9674-299b90a802e2")
Header = tuple[str, bytes | None]


def long(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


def framed(*records: tuple[bytes | None, list[Header] | None], side: str = "value") -> list[tuple[object, int]]:
    """Per record what it names (or a negative code), and how many bytes stand before the Avro."""
    rows = [
        {"topic": "t", "partition": 0, "offset": i, side: data,
         "headers": None if headers is None else [{"key": k, "value": v} for k, v in headers]}
        for i, (data, headers) in enumerate(records)
    ]  # fmt: skip
    frames = Framing(pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA), side).frames
    return [
        (frames.refs[code] if code >= 0 else code, skipped)
        for code, skipped in zip(frames.codes.tolist(), frames.skipped.tolist(), strict=True)
    ]


def ref(kind: RefKind, value: object) -> SchemaRef:
    return SchemaRef(kind, str(value))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x00\x00\x00\x00\x07rest", (ref(RefKind.ID, 7), 5)),
        (b"\x00\x00\x00\x00\x07", (ref(RefKind.ID, 7), 5)),
        (b"\x00\xff\xff\xff\xffx", (ref(RefKind.ID, 2**32 - 1), 5)),
        (b"\x00\x00\x00\x00\x00\x00\x00\x00\x09rest", (ref(RefKind.GLOBAL_ID, 9), 9)),
        (b"\x01" + GUID.bytes + b"rest", (ref(RefKind.GUID, GUID), 17)),
        (b"\x00\x00\x00\x00\x00", (UNFRAMED, 0)),
        (b"\x00\x00\x00", (UNFRAMED, 0)),
        (b"", (UNFRAMED, 0)),
        (b'{"a": 1}', (UNFRAMED, 0)),
        (b"\x01short", (UNFRAMED, 0)),
        (None, (NULL, 0)),
    ],
)
def test_the_bytes_in_front_name_a_schema(data: bytes | None, expected: tuple[object, int]) -> None:
    assert framed((data, None)) == [expected]
    assert framed((b"\x00\x00\x00\x00\x01", None), (data, []), side="key")[1] == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([("apicurio.value.globalId", long(7))], ref(RefKind.GLOBAL_ID, 7)),
        ([("apicurio.value.contentId", long(8)), ("apicurio.value.encoding", b"BINARY")], ref(RefKind.CONTENT_ID, 8)),
        ([("apicurio.value.contentId", long(8)), ("apicurio.value.globalId", long(7))], ref(RefKind.CONTENT_ID, 8)),
        ([("__value_schema_id", b"\x01" + GUID.bytes)], ref(RefKind.GUID, GUID)),
        ([("__value_schema_id", b"\x00\x00\x00\x00\x05")], ref(RefKind.ID, 5)),
        ([("__value_schema_id", b"\x07"), ("__value_schema_id", b"\x01" + GUID.bytes)], ref(RefKind.GUID, GUID)),
        ([("apicurio.value.globalId", b"\x07")], BAD_HEADER),
        ([("apicurio.value.globalId", long(0))], BAD_HEADER),
        ([("__value_schema_id", None)], BAD_HEADER),
        ([("apicurio.value.globalId", long(7)), ("apicurio.value.encoding", b"JSON")], BAD_HEADER),
    ],
)
def test_headers_win_over_the_first_byte(headers: list[Header], expected: object) -> None:
    bare = b"\x00\x00\x00\x00\x07"  # Avro that begins with zeros by chance

    found = framed((bare, headers), (bare, [("other", b"x")]), (None, headers))

    assert found == [(expected, 0), (ref(RefKind.ID, 7), 5), (NULL, 0)]


def test_headers_of_keys_are_not_those_of_values() -> None:
    headers: list[Header] = [("apicurio.key.globalId", long(3)), ("__value_schema_id", b"\x00\x00\x00\x00\x05")]

    assert framed((b"x", headers), side="key") == [(ref(RefKind.GLOBAL_ID, 3), 0)]
    assert framed((b"x", headers)) == [(ref(RefKind.ID, 5), 0)]
