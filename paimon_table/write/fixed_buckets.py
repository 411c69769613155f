"""A fixed number of buckets: the hash of the bucket key says it all. A lane is a bucket, nothing is left to assign."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.index_file import NO_INDEX_CHANGE, IndexChange
from paimon_table.rows.hashes import assign_buckets
from paimon_table.schema.table_schema import TableSchema
from paimon_table.write.lanes import Lane, groups_of, partitions_of


@dataclass(frozen=True, slots=True)
class FixedLanes:
    """One lane for each bucket: Paimon's hash of the bucket key."""

    schema: TableSchema
    bucket_count: int
    function: str

    def split(self, rows: pa.Table) -> Iterator[tuple[Lane, pa.Table]]:
        """See ``LaneSplit``."""
        if rows.num_rows == 0:
            return
        buckets = self._buckets(rows)
        for partition, members in partitions_of(rows, self.schema):
            for bucket, indices in groups_of(buckets if members is None else buckets[members]):
                chosen = indices if members is None else members[indices]
                yield Lane(partition, bucket), rows.take(pa.array(chosen))

    def _buckets(self, rows: pa.Table) -> npt.NDArray[np.int32]:
        keys = [self.schema.field(name) for name in self.schema.bucket_keys]
        columns = [rows.column(f.name).combine_chunks() for f in keys]
        return assign_buckets(columns, [f.type for f in keys], self.bucket_count, self.function)


class FixedAssigner:
    """A lane is a bucket."""

    def assign(self, lane: Lane, rows: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """See ``BucketAssigner``."""
        yield BucketId(lane.partition, lane.number), rows

    def find(self, lane: Lane, keys: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """See ``BucketAssigner``."""
        yield BucketId(lane.partition, lane.number), keys

    def find_former(self, lane: Lane, keys: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """As ``find``: a key never changes its bucket."""
        return self.find(lane, keys)

    def prepare_append(self, bucket: BucketId) -> IndexChange:
        """Nothing: the number of the bucket follows from the key."""
        return NO_INDEX_CHANGE

    def appended(self, messages: Sequence[CommitMessage]) -> None:
        """Nothing to remember."""

    def prepare_others(self, lane: Lane) -> Iterator[tuple[BucketId, IndexChange]]:
        """No other bucket belongs to the lane."""
        return iter(())
