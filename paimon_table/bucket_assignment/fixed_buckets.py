"""Tables whose rows determine their bucket, so that nothing is left to assign.

With a fixed number of buckets the hash of the bucket key determines it, and a lane is a bucket. Postponed rows of a
partition all go into bucket -2, see ``write.postponed_writer``. Tables without buckets have all files in bucket 0,
which any task may write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from paimon_table.bucket_assignment.lanes import Lane, partitions_of
from paimon_table.errors import UnsupportedFeature
from paimon_table.metadata.bucket_id import POSTPONED, BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.index_file import NO_INDEX_CHANGE, IndexChange
from paimon_table.rows.groups import groups_of
from paimon_table.schema.key_numbers import bucket_numbers
from paimon_table.schema.table_schema import TableSchema


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
        buckets = bucket_numbers(self.schema, rows, self.bucket_count, self.function)
        for partition, members in partitions_of(rows, self.schema):
            for bucket, indices in groups_of(buckets if members is None else buckets[members]):
                chosen = indices if members is None else members[indices]
                yield Lane(partition, bucket), rows.take(pa.array(chosen))


@dataclass(frozen=True, slots=True)
class FixedAssigner:
    """The lane determines the bucket."""

    bucket: int | None = None
    """The bucket of all rows of a partition; None: a lane is a bucket."""

    def assign(self, lane: Lane, rows: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """See ``BucketAssigner``."""
        yield self._bucket(lane), rows

    def find(self, lane: Lane, keys: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """See ``BucketAssigner``."""
        yield self._bucket(lane), keys

    def find_former(self, lane: Lane, keys: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """As ``find``: a key never changes its bucket."""
        return self.find(lane, keys)

    def prepare_append(self, bucket: BucketId) -> IndexChange:
        """Nothing: the bucket follows from the row."""
        return NO_INDEX_CHANGE

    def appended(self, messages: Sequence[CommitMessage]) -> None:
        """Nothing to remember."""

    def prepare_others(self, lane: Lane) -> Iterator[tuple[BucketId, IndexChange]]:
        """No other bucket belongs to the lane."""
        return iter(())

    def _bucket(self, lane: Lane) -> BucketId:
        return BucketId(lane.partition, lane.number if self.bucket is None else self.bucket)


@dataclass(frozen=True, slots=True)
class PostponedAssigner(FixedAssigner):
    """All rows of a partition go into bucket -2, where no row can be found again."""

    bucket: int | None = POSTPONED
    root: str = ""
    """The table, for errors."""

    def find(self, lane: Lane, keys: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """Raises UnsupportedFeature: the newest row of a key may be a waiting row, which cannot be looked up."""
        raise UnsupportedFeature(
            f"{self.root} has postponed buckets ('bucket' = -2), in which Tidemark cannot look up stored rows, "
            "and events lack values that did not change. Let the source send whole rows (REPLICA IDENTITY FULL), "
            "or set a number of buckets"
        )


UNAWARE_BUCKET = 0
"""The bucket of all files."""


@dataclass(frozen=True, slots=True)
class PartitionLanes:
    """One lane for each partition. The caller may split its rows into any number of lanes."""

    schema: TableSchema

    def split(self, rows: pa.Table) -> Iterator[tuple[Lane, pa.Table]]:
        """See ``LaneSplit``."""
        if rows.num_rows == 0:
            return
        for partition, members in partitions_of(rows, self.schema):
            yield Lane(partition, 0), rows if members is None else rows.take(pa.array(members))
