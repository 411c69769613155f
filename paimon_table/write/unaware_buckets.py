"""No buckets: any task may write any row of a table without primary key; all files are in bucket 0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.index_file import NO_INDEX_CHANGE, IndexChange
from paimon_table.schema.table_schema import TableSchema
from paimon_table.write.lanes import Lane, partitions_of


@dataclass(frozen=True, slots=True)
class PartitionLanes:
    """One lane for each partition. Whoever carries its rows may share them among lanes of any other numbers."""

    schema: TableSchema

    def split(self, rows: pa.Table) -> Iterator[tuple[Lane, pa.Table]]:
        """See ``LaneSplit``."""
        if rows.num_rows == 0:
            return
        for partition, members in partitions_of(rows, self.schema):
            yield Lane(partition, 0), rows if members is None else rows.take(pa.array(members))


class OneBucket:
    """All rows of a partition go into bucket 0."""

    def assign(self, lane: Lane, rows: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """See ``BucketAssigner``."""
        yield BucketId(lane.partition, 0), rows

    def find(self, lane: Lane, keys: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """See ``BucketAssigner``."""
        yield BucketId(lane.partition, 0), keys

    def find_former(self, lane: Lane, keys: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """As ``find``: a key never changes its bucket."""
        return self.find(lane, keys)

    def prepare_append(self, bucket: BucketId) -> IndexChange:
        """Nothing: there is one bucket."""
        return NO_INDEX_CHANGE

    def appended(self, messages: Sequence[CommitMessage]) -> None:
        """Nothing to remember."""

    def prepare_others(self, lane: Lane) -> Iterator[tuple[BucketId, IndexChange]]:
        """There is no other bucket."""
        return iter(())
