"""Which bucket a row goes into, and which task must get it for that.

Two steps, because they know different things. A **split** runs wherever rows come from, on any number of executors. It
knows only the schema and the plan of the batch, and gathers rows into lanes. All rows of a lane meet in one task, which
owns the lane for a batch. There the **assigner**, which may know the table's content, gives them their buckets. The
same task writes and compacts these.
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

    Without keys and buckets (``TableOptions.is_unaware``) neither matters: a lane is a share of a partition's rows.
    """

    partition: bytes
    number: int


class LaneSplit(Protocol):
    """Gathers rows into lanes. Pure, and a value that can be pickled: without storage and its secrets."""

    def split(self, rows: pa.Table) -> Iterator[tuple[Lane, pa.Table]]:
        """The rows of each lane in the order in which they are given; ``rows`` has the primary key at least."""
        ...


class BucketAssigner(Protocol):
    """Gives the rows of lanes their buckets, in the task that owns the lanes; for one batch of one table."""

    def assign(self, lane: Lane, rows: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """The rows of each bucket in the order in which they are given. A key stays in the bucket that it has."""
        ...

    def find(self, lane: Lane, keys: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """The keys of each bucket that has some in the table as it was before the batch; assigns nothing."""
        ...

    def find_former(self, lane: Lane, keys: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """The keys of each bucket that may have had some in a former snapshot, the likeliest first."""
        ...

    def prepare_append(self, bucket: BucketId) -> IndexChange:
        """The notes of the commit about the bucket, durable after ``FileIO.sync``.

        It becomes part of the same APPEND snapshot. If called before the rows are written, it goes to the disk in
        parallel with them.
        """
        ...

    def appended(self, messages: Sequence[CommitMessage]) -> None:
        """Hear of the messages for the commit of some lanes, which may still fail."""
        ...

    def prepare_others(self, lane: Lane) -> Iterator[tuple[BucketId, IndexChange]]:
        """Its notes about buckets that got no rows, durable after ``FileIO.sync``; called after all others."""
        ...


def partitions_of(rows: pa.Table, schema: TableSchema) -> Iterator[tuple[bytes, npt.NDArray[np.int64] | None]]:
    """(serialized partition row, row numbers in the order given); None stands for all rows."""
    if not schema.partition_keys:
        yield EMPTY_ROW, None
        return
    names = list(schema.partition_keys)
    numbered = pa.table(
        [*(_as_numbers(rows.column(name)) for name in names), np.arange(rows.num_rows, dtype=np.int64)],
        names=[*names, "_row"],
    )
    # Grouping gives no order of the members: they are sorted again, because the last row of a key wins.
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
