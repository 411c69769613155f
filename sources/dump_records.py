"""Reading dumps of Kafka topics in the form that ``kcat -J`` prints: one JSON object per record and line.

    {"topic": "t", "partition": 0, "offset": 7, "ts": 1700000000000, "headers": ["k", "v"], "key": "", "payload": ""}

``key_b64`` and ``payload_b64`` may stand in for ``key`` and ``payload`` (binary content in base64). Files may be
compressed with gzip (``.gz``) or zstandard (``.zst``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from sources.base64_columns import binary_array, decode_base64
from sources.changes import RECORD_SCHEMA

_LINE_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("ts", pa.int64()),
        ("key", pa.string()),
        ("payload", pa.string()),
        ("key_b64", pa.string()),
        ("payload_b64", pa.string()),
        ("headers", pa.list_(pa.string())),
    ]
)
_BLOCK_BYTES = 8 << 20
MALFORMED_PREFIX = "malformed:"
"""Begins the topic of lines that are no records."""


def open_dump(path: str) -> pa.NativeFile:
    """The uncompressed bytes of a dump file as a stream; plain files can be seeked."""
    if path.endswith(".gz"):
        return pa.CompressedInputStream(pa.OSFile(path), "gzip")
    if path.endswith(".zst"):
        return pa.CompressedInputStream(pa.OSFile(path), "zstd")
    return pa.OSFile(path)


def record_batches_from_dump(path: str) -> Iterator[pa.RecordBatch]:
    """All records of a dump file as batches of ``RECORD_SCHEMA``; no Spark. A last line need not end in a newline."""
    with open_dump(path) as stream:
        rest = b""
        position = 0
        while block := stream.read(_BLOCK_BYTES):
            whole, newline, tail = (rest + block).rpartition(b"\n")
            rest = tail
            if newline:
                yield records_of_text(whole, path, position)
                position += len(whole) + 1
        if rest.strip():
            yield records_of_text(rest, path, position)


def records_of_text(text: bytes, file: str, position: int) -> pa.RecordBatch:
    """Records of whole lines; ``position`` is where the text begins in the (uncompressed) file.

    A line that is no record gives one with the line as value, ``malformed:`` and the file's name as topic, partition -1
    and the line's position as offset, so that it ends in quarantine.
    """
    try:
        return _records(_parsed(text))
    except pa.ArrowInvalid:
        pass
    lines = text.split(b"\n")
    if len(lines) == 1:
        return _malformed(text, file, position)
    middle = len(lines) // 2
    first, second = b"\n".join(lines[:middle]), b"\n".join(lines[middle:])
    halves = (records_of_text(first, file, position), records_of_text(second, file, position + len(first) + 1))
    return pa.Table.from_batches(halves).combine_chunks().to_batches()[0]


def _parsed(text: bytes) -> pa.Table:
    if not text.strip():
        return _LINE_SCHEMA.empty_table()
    table = pj.read_json(
        pa.BufferReader(text),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
        parse_options=pj.ParseOptions(explicit_schema=_LINE_SCHEMA, unexpected_field_behavior="ignore"),
    )
    if any(table.column(name).null_count for name in ("topic", "partition", "offset")):
        raise pa.ArrowInvalid("a line is no record")
    return table


def _records(table: pa.Table) -> pa.RecordBatch:
    columns = {f.name: table.column(f.name).combine_chunks() for f in _LINE_SCHEMA}
    arrays = [
        columns["topic"],
        columns["partition"],
        columns["offset"],
        columns["ts"].cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")),
        _binary(columns["key"], columns["key_b64"]),
        _binary(columns["payload"], columns["payload_b64"]),
        _headers(columns["headers"]),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA)


def _binary(text: pa.Array, encoded: pa.Array) -> pa.Array:
    data = text.cast(pa.binary())
    if encoded.null_count == len(encoded):
        return data
    decoded = decode_base64(encoded)
    if decoded.malformed.any():
        raise pa.ArrowInvalid("key_b64 or payload_b64 is not base64")
    return pc.coalesce(data, binary_array(decoded, encoded.is_valid()))


def _headers(flat: pa.Array) -> pa.Array:
    """Alternating names and values -> structs; the lists have an even length."""
    lengths = np.asarray(pc.fill_null(pc.list_value_length(flat), 0))
    if (lengths % 2).any():
        raise pa.ArrowInvalid("headers have a name without a value")
    values = flat.flatten()
    offsets = np.zeros(len(flat) + 1, np.int32)
    np.cumsum(lengths // 2, out=offsets[1:])
    names, contents = (values.take(pa.array(np.arange(first, len(values), 2))) for first in (0, 1))
    headers = RECORD_SCHEMA.field("headers").type
    pairs = pa.StructArray.from_arrays([names, contents.cast(pa.binary())], fields=list(headers.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets), pairs, mask=flat.is_null()).cast(headers)


def _malformed(line: bytes, file: str, position: int) -> pa.RecordBatch:
    row: dict[str, Any] = {"topic": MALFORMED_PREFIX + file, "partition": -1, "offset": position, "value": line}
    return pa.RecordBatch.from_pylist([row], schema=RECORD_SCHEMA)
