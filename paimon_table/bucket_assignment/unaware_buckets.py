"""No buckets: any task may write any row of a table without primary key; all files are in bucket 0."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from paimon_table.bucket_assignment.lanes import Lane, partitions_of
from paimon_table.schema.table_schema import TableSchema

UNAWARE_BUCKET = 0
"""The bucket of all files."""


@dataclass(frozen=True, slots=True)
class PartitionLanes:
    """One lane for each partition. The carrier of its rows may share them among lanes of any other numbers."""

    schema: TableSchema

    def split(self, rows: pa.Table) -> Iterator[tuple[Lane, pa.Table]]:
        """See ``LaneSplit``."""
        if rows.num_rows == 0:
            return
        for partition, members in partitions_of(rows, self.schema):
            yield Lane(partition, 0), rows if members is None else rows.take(pa.array(members))
