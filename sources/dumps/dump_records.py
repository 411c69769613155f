"""Reading dumps of Kafka topics in the form that ``kcat -J`` prints: one JSON object per record and line.

    {"topic": "t", "partition": 0, "offset": 7, "ts": 1700000000000, "headers": ["k", "v"], "key": "", "payload": ""}

``key_b64`` and ``payload_b64`` may stand in for ``key`` and ``payload`` (binary content in base64). Files may be
compressed with gzip (``.gz``) or zstandard (``.zst``). Lines of this form are read many at once, others one by one
(``dump_lines``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from paimon_table.ids import Offset
from paimon_table.rows.chunks import one_array
from sources.changes import RECORD_SCHEMA, QuarantineRow
from sources.dumps.dump_lines import MALFORMED_PREFIX, DumpRecord, NoRecord, record_of_line
from sources.values.base64_columns import binary_array, decode_base64

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
        ("tstype", pa.string()),
        ("broker", pa.int32()),
        ("reason", pa.string()),
        ("source", pa.list_(pa.string())),
    ]
)
_BLOCK_BYTES = 8 << 20
_FEW_LINES = 16
"""A text that does not parse as a whole is halved down to this number of lines, then read line by line."""
_REASON = "reason"
"""Header of a line that is not a record: its fault."""


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

    A line that is not a record gives one with the line as value, ``malformed:`` and the file's name as topic, partition
    -1, and the line's position as offset. ``without_malformed`` takes it out with the reason.
    """
    try:
        return _records(_parsed(text))
    except pa.ArrowInvalid:
        pass
    lines = text.split(b"\n")
    if len(lines) <= _FEW_LINES:
        return _one_by_one(lines, file, position)
    middle = len(lines) // 2
    first, second = b"\n".join(lines[:middle]), b"\n".join(lines[middle:])
    halves = (records_of_text(first, file, position), records_of_text(second, file, position + len(first) + 1))
    return pa.Table.from_batches(halves).combine_chunks().to_batches()[0]


def refused_line(line: bytes, file: str, position: int, problem: NoRecord) -> pa.RecordBatch:
    """A line that is not a record, as ``records_of_text`` gives it."""
    return pa.RecordBatch.from_pylist([_refused_row(line, file, position, problem)], schema=RECORD_SCHEMA)


def without_malformed(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, tuple[QuarantineRow, ...]]:
    """The records, and separately the lines that are not records, with their reasons."""
    if not batch.num_rows or pc.min(batch.column("partition")).as_py() >= 0:
        return batch, ()
    is_record = pc.greater_equal(batch.column("partition"), 0)
    return batch.filter(is_record), tuple(map(_refused, batch.filter(pc.invert(is_record)).to_pylist()))


def _refused(row: dict[str, Any]) -> QuarantineRow:
    reason = next(h["value"] for h in row["headers"] if h["key"] == _REASON)
    return QuarantineRow(
        row["topic"], row["partition"], Offset(row["offset"]), None, reason.decode(), None, row["value"]
    )


def _one_by_one(lines: list[bytes], file: str, position: int) -> pa.RecordBatch:
    rows: list[dict[str, Any]] = []
    for line in lines:
        if line.strip():
            rows.append(_row(line, file, position))
        position += len(line) + 1
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def _row(line: bytes, file: str, position: int) -> dict[str, Any]:
    try:
        record = record_of_line(line)
    except NoRecord as error:
        return _refused_row(line, file, position, error)
    return row_of(record)


def row_of(record: DumpRecord) -> dict[str, Any]:
    """A record of a dump as a row of ``RECORD_SCHEMA``."""
    headers = None if record.headers is None else [{"key": name, "value": value} for name, value in record.headers]
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": None if record.ts is None else record.ts * 1000,
        "key": record.key,
        "value": record.value,
        "headers": headers,
    }


def _refused_row(line: bytes, file: str, position: int, problem: NoRecord) -> dict[str, Any]:
    reason = f"byte {position} of {file}: {problem}"
    place = {"topic": MALFORMED_PREFIX + file, "partition": -1, "offset": position}
    return {**place, "value": line, "headers": [{"key": _REASON, "value": reason.encode(errors="replace")}]}


def _parsed(text: bytes) -> pa.Table:
    if not text.strip():
        return _LINE_SCHEMA.empty_table()
    table = pj.read_json(
        pa.BufferReader(text),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
        parse_options=pj.ParseOptions(explicit_schema=_LINE_SCHEMA, unexpected_field_behavior="error"),
    )
    if any(table.column(name).null_count for name in ("topic", "partition", "offset")):
        raise pa.ArrowInvalid("a line is not a record")
    if table.num_rows and min(pc.min(table.column(name)).as_py() for name in ("partition", "offset")) < 0:
        raise pa.ArrowInvalid("a line is a quarantined one")
    return table


def _records(table: pa.Table) -> pa.RecordBatch:
    columns = {f.name: one_array(table.column(f.name)) for f in _LINE_SCHEMA}
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
    if pc.any(pc.and_(text.is_valid(), encoded.is_valid())).as_py():
        raise pa.ArrowInvalid("a line has both text and base64")
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
