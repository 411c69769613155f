"""Executor side: split the decoded changes of one table into blobs, one per (partition, bucket).

Fixed buckets only: bucket = Paimon's hash of the bucket key. Rows keep their order of arrival inside a blob.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.rows.binary_row import serialize_row
from paimon_table.rows.hashes import assign_buckets
from paimon_table.schema.table_schema import TableSchema
from sinks.exchange.blob import Blob, encode_rows
from sinks.exchange.slots import slot_keys, slot_of
from sinks.exchange.target import OFFSET, Routing


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a stretch of changes was read."""

    topic: str
    partition: int


def route(rows: pa.Table, target_index: int, target: Routing, origin: Origin, slots: int) -> Iterator[Blob]:
    """Blobs of the changes ``rows`` (value columns, ``_VALUE_KIND``, ``_OFFSET``), which are in order of arrival."""
    floor = target.floors.get((origin.topic, origin.partition))
    if floor is not None:
        rows = rows.filter(pc.greater_equal(rows.column(OFFSET), floor))
    if rows.num_rows == 0:
        return
    schema = target.schema
    buckets = _buckets(rows, schema, target)
    for partition, members in _partitions(rows, schema):
        for bucket, indices in _groups(buckets if members is None else buckets[members]):
            chosen = indices if members is None else members[indices]
            part = rows.take(pa.array(chosen))
            bucket_id = BucketId(partition, bucket)
            yield Blob(
                slot_keys(slots)[slot_of(target_index, partition, bucket, slots)],
                target_index,
                bucket_id,
                origin.topic,
                origin.partition,
                part.column(OFFSET)[0].as_py(),
                part.num_rows,
                encode_rows(part.drop_columns([OFFSET])),
            )


def _buckets(rows: pa.Table, schema: TableSchema, target: Routing) -> npt.NDArray[np.int32]:
    keys = [schema.field(name) for name in schema.bucket_keys]
    columns = [rows.column(f.name).combine_chunks() for f in keys]
    types = [f.type for f in keys]
    return assign_buckets(columns, types, target.total_buckets, target.options.bucket_function)


def _partitions(rows: pa.Table, schema: TableSchema) -> Iterator[tuple[bytes, npt.NDArray[np.int64] | None]]:
    """(serialized partition row, row numbers in order of arrival); None stands for all rows."""
    if not schema.partition_keys:
        yield EMPTY_ROW, None
        return
    names = list(schema.partition_keys)
    numbered = pa.table(
        [*(_as_numbers(rows.column(name)) for name in names), np.arange(rows.num_rows, dtype=np.int64)],
        names=[*names, "_row"],
    )
    grouped = numbered.group_by(names, use_threads=False).aggregate([("_row", "list")])
    types = [schema.field(name).type for name in names]
    for row in grouped.to_pylist():
        members = np.sort(np.asarray(row["_row_list"], dtype=np.int64))
        yield serialize_row([row[name] for name in names], types), members


def _as_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates and times as the integers that Arrow stores: Python's own types end at the years 1 and 9999."""
    if not pa.types.is_temporal(column.type):
        return column
    return column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())


def _groups(buckets: npt.NDArray[np.int32]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """(bucket, positions in order) for each bucket that occurs."""
    order = np.argsort(buckets, kind="stable")
    ordered = buckets[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.empty(0, np.int64)
    for start, end in zip(starts, np.r_[starts[1:], len(ordered)], strict=True):
        yield int(ordered[start]), order[start:end]
