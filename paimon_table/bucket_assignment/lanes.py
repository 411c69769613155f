"""How a row gets its bucket, and the task that assigns it.

There are two steps, with different knowledge. A **split** runs in the tasks that produce rows, on any number of
executors. It has only the schema and the plan of the batch, and groups rows into lanes. One task gets all rows of a
lane and owns the lane for a batch. There the **assigner**, which may read the table, assigns the buckets. The same task
writes and compacts these buckets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.index_file import IndexChange
from paimon_table.rows.binary_row import serialize_row
from paimon_table.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class Lane:
    """Keys of a partition that one task owns: no key is in two lanes, and no bucket gets rows of two lanes.

    In a table without keys and buckets (``TableOptions.is_unaware``) a lane is any share of a partition's rows.
    """

    partition: bytes
    number: int


class LaneSplit(Protocol):
    """Groups rows into lanes. Pure and picklable: it has no storage and no secrets."""

    def split(self, rows: pa.Table) -> Iterator[tuple[Lane, pa.Table]]:
        """The rows of each lane in their order; ``rows`` has at least the primary key."""
        ...


class BucketAssigner(Protocol):
    """Assigns the rows of lanes to buckets, in the task that owns the lanes; for one batch of one table."""

    def assign(self, lane: Lane, rows: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """The rows of each bucket in their order. A key stays in its bucket."""
        ...

    def find(self, lane: Lane, keys: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """The keys by bucket, as the table has them before the batch; assigns nothing."""
        ...

    def find_former(self, lane: Lane, keys: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """The keys by the buckets that may have had them in a former snapshot, the likeliest first."""
        ...

    def prepare_append(self, bucket: BucketId) -> IndexChange:
        """The index change of the bucket for the commit, durable after ``FileIO.sync``.

        It becomes part of the same APPEND snapshot. If this is called before the rows are written, both reach the disk
        in parallel.
        """
        ...

    def appended(self, messages: Sequence[CommitMessage]) -> None:
        """Note the messages for the commit of some lanes, which may still fail."""
        ...

    def prepare_others(self, lane: Lane) -> Iterator[tuple[BucketId, IndexChange]]:
        """The index changes of buckets without rows, durable after ``FileIO.sync``; called after all others."""
        ...


def partitions_of(rows: pa.Table, schema: TableSchema) -> Iterator[tuple[bytes, npt.NDArray[np.int64] | None]]:
    """Pairs of a serialized partition row and the numbers of its rows in their order; None means all rows."""
    if not schema.partition_keys:
        yield EMPTY_ROW, None
        return
    names = list(schema.partition_keys)
    numbered = pa.table(
        [*(_as_numbers(rows.column(name)) for name in names), np.arange(rows.num_rows, dtype=np.int64)],
        names=[*names, "_row"],
    )
    # Grouping does not keep the order of rows. They are sorted again, because the last row of a key wins.
    grouped = numbered.group_by(names, use_threads=False).aggregate([("_row", "list")])
    types = [schema.field(name).type for name in names]
    for row in grouped.to_pylist():
        members = np.sort(np.asarray(row["_row_list"], dtype=np.int64))
        yield serialize_row([row[name] for name in names], types), members


def _as_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates and times as the integers that Arrow stores, because Python's types cover only the years 1 to 9999."""
    if not pa.types.is_temporal(column.type):
        return column
    return column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
