"""Records of a batch in the form of the quarantine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.ids import Offset
from sources.changes import QuarantineRow, SourceTable


def record_row(batch: pa.RecordBatch, position: int, reason: str, source: SourceTable | None) -> QuarantineRow:
    """The record at a position of a batch."""
    record = batch.slice(position, 1)
    columns = {name: record.column(name)[0].as_py() for name in record.schema.names if name != "timestamp"}
    return QuarantineRow(
        columns["topic"],
        columns["partition"],
        Offset(columns["offset"]),
        timestamp_ms_of(batch, position),
        reason,
        columns["key"],
        columns["value"],
        tuple((header["key"], header["value"]) for header in columns.get("headers") or ()),
        source,
    )


def rows_at(
    batch: pa.RecordBatch, source: SourceTable, partition: int, offsets: Iterable[int], reason: str = ""
) -> Iterator[QuarantineRow]:
    """The records of a source table at ``offsets`` of a partition of its topic, in the order of the batch."""
    wanted = np.isin(np.asarray(batch.column("offset")), np.fromiter(offsets, np.int64))
    is_of = pc.and_(pc.equal(batch.column("topic"), source.topic), pc.equal(batch.column("partition"), partition))
    for position in np.flatnonzero(wanted & np.asarray(is_of)):
        yield record_row(batch, int(position), reason, source)


def timestamp_ms_of(batch: pa.RecordBatch, position: int) -> int | None:
    """Kafka's time of a record, which takes values that Python has no date for; the column may hold milliseconds."""
    milliseconds: int | None = _in_ms(batch.column("timestamp").slice(position, 1))[0].as_py()
    return milliseconds


def timestamps_ms_of(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """The same for all records; 0 if there is none."""
    return np.asarray(pc.fill_null(_in_ms(batch.column("timestamp")), 0))


def _in_ms(timestamps: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(timestamps.type):
        return timestamps.cast(pa.timestamp("ms", timestamps.type.tz), safe=False).view(pa.int64())
    return timestamps
