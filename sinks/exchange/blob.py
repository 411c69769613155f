"""A blob: the changes of one lane from one range of one topic partition, as a row that Spark can shuffle.

The rows travel as one Arrow IPC buffer. So a shuffle moves a few large values instead of many small rows, and tables of
different schemas share one shuffle. Rows with a negative ``target`` carry reports of a decode task instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from paimon_table import Lane

REPORT = -1
"""The ``target`` of a row whose data is not changes but a pickled report, or another result of a task."""

BLOB_DDL = (
    "slot int, target int, partition binary, lane int, topic string, topic_partition int,"
    " first_offset bigint, row_count bigint, file string, file_offset bigint, byte_count bigint, data binary"
)
_BLOB_SCHEMA = pa.schema(
    [
        ("slot", pa.int32()),
        ("target", pa.int32()),
        ("partition", pa.binary()),
        ("lane", pa.int32()),
        ("topic", pa.string()),
        ("topic_partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("row_count", pa.int64()),
        ("file", pa.string()),
        ("file_offset", pa.int64()),
        ("byte_count", pa.int64()),
        ("data", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True)
class Blob:
    """Changes of one lane in arrival order; ``target`` indexes the targets of the batch plan."""

    slot_key: int
    target: int
    lane: Lane
    topic: str
    topic_partition: int
    first_offset: int
    row_count: int
    data: pa.Buffer | bytes
    file: str = ""
    """The file with the data, on a disk that all tasks share; empty if ``data`` has it. See
    ``sinks.exchange.spool``."""
    file_offset: int = 0
    byte_count: int = 0
    """The position in that file, in bytes."""

    @property
    def arrival(self) -> tuple[str, int, int]:
        """The sort key for the order of arrival among the blobs of one lane."""
        return (self.topic, self.topic_partition, self.first_offset)


def encode_rows(rows: pa.Table, compression: str | None = None) -> pa.Buffer:
    """The rows as one Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(rows)
    return sink.getvalue()


def decode_rows(data: pa.Buffer | bytes) -> pa.Table:
    """The inverse of ``encode_rows``; the table refers to the buffer, nothing is copied."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def result_blob(result: bytes, slot_key: int) -> Blob:
    """A row that carries a pickled report, or another result of a task, past the write tasks to the driver."""
    return Blob(slot_key, REPORT, Lane(b"", 0), "", 0, 0, 0, result)


def to_record_batch(blobs: Sequence[Blob]) -> pa.RecordBatch:
    """Blobs as the Arrow batch that a decode task returns to Spark."""
    columns: list[Iterable[Any]] = [
        [b.slot_key for b in blobs],
        [b.target for b in blobs],
        [b.lane.partition for b in blobs],
        [b.lane.number for b in blobs],
        [b.topic for b in blobs],
        [b.topic_partition for b in blobs],
        [b.first_offset for b in blobs],
        [b.row_count for b in blobs],
        [b.file for b in blobs],
        [b.file_offset for b in blobs],
        [b.byte_count for b in blobs],
    ]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, _BLOB_SCHEMA, strict=False)]
    return pa.RecordBatch.from_arrays([*arrays, _binary_array([b.data for b in blobs])], schema=_BLOB_SCHEMA)


def from_record_batch(batch: pa.RecordBatch) -> Iterator[Blob]:
    """The inverse of ``to_record_batch``; the data refer to the batch's memory."""
    columns = [column.to_pylist() for column in batch.columns[:-1]]
    for *meta, data in zip(*columns, batch.column("data"), strict=True):
        yield from_row((*meta, data.as_buffer()))


def from_row(row: Sequence[Any]) -> Blob:
    """A blob from the values of one row, in the order of ``BLOB_DDL``."""
    slot, target, partition, lane, topic, topic_partition, first_offset, row_count, *place, data = row
    return Blob(
        slot, target, Lane(bytes(partition), lane), topic, topic_partition, first_offset, row_count, data, *place
    )


def _binary_array(values: Sequence[pa.Buffer | bytes]) -> pa.Array:
    """A binary array from buffers, with one copy."""
    builder = [memoryview(v) for v in values]
    offsets = [0]
    for view in builder:
        offsets.append(offsets[-1] + view.nbytes)
    joined = b"".join(builder)
    return pa.Array.from_buffers(
        pa.binary(), len(values), [None, pa.array(offsets, pa.int32()).buffers()[1], pa.py_buffer(joined)]
    )
