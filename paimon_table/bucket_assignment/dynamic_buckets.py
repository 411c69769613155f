"""Dynamic buckets: a key stays in the bucket whose index file has it, a new key goes to a bucket with room.

Implements Paimon's HASH_DYNAMIC mode. During a batch only the assigner has its assignments. The index files in the
APPEND snapshot of the rows make them part of the table. Between batches the assigner keeps only contents of index
files.

If an index file is lost, the assigner rebuilds it from the keys of the bucket's data files. Deleted keys are missing
from it, and count as new. The next commit of the lane replaces the lost file. So a lost file that reappears cannot
contradict buckets that got these keys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from paimon_table.bucket_assignment.dynamic_lanes import DynamicLanes, fewer_assigners
from paimon_table.bucket_assignment.key_places import UNKNOWN
from paimon_table.bucket_assignment.lanes import Lane
from paimon_table.bucket_assignment.open_lane import LanePlan, OpenLane
from paimon_table.bucket_assignment.owned_buckets import Buckets, assigner_count
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.index_file import IndexChange
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import LiveFiles
from paimon_table.options.table_options import TableOptions
from paimon_table.rows.groups import groups_of
from paimon_table.schema.key_numbers import key_hashes
from paimon_table.schema.table_schema import TableSchema
from paimon_table.write.bucket_count import check_bucket_count
from paimon_table.write.bucket_writer import WriterEnvironment

_T = TypeVar("_T")


def dynamic_lanes(schema: TableSchema, options: TableOptions, live: LiveFiles) -> DynamicLanes:
    """The lanes of a table at a snapshot; the same on the driver and in every task, for any number of tasks."""
    assigners = assigner_count(options)
    return DynamicLanes(schema, assigners, fewer_assigners(live, assigners))


class DynamicAssigner:
    """The assigner of the lanes of one table that one task owns, for one batch."""

    def __init__(self, ctx: TableContext, live: LiveFiles, environment: WriterEnvironment) -> None:
        self._ctx = ctx
        self._lanes = dynamic_lanes(ctx.schema, ctx.options, live)
        self._partition_buckets = live.partition_buckets
        self._index_files = _by_partition(live.hash_files)
        self._data_files = _by_partition(live.files)
        self._environment = environment
        self._opened: dict[Lane, OpenLane] = {}

    def assign(self, lane: Lane, rows: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """See ``BucketAssigner``."""
        yield from _by_bucket(lane, rows, self._lane(lane).assign(key_hashes(self._ctx.schema, rows)))

    def find(self, lane: Lane, keys: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """See ``BucketAssigner``."""
        yield from _by_bucket(lane, keys, self._lane(lane).find(key_hashes(self._ctx.schema, keys)))

    def find_former(self, lane: Lane, keys: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """As ``find``: a key never changes its bucket."""
        return self.find(lane, keys)

    def prepare_append(self, bucket: BucketId) -> IndexChange:
        """A new index file if the bucket got new keys, and all index files that the partition had before."""
        number = bucket.bucket % self._lanes.assigners_in(bucket.partition)
        return self._opened[Lane(bucket.partition, number)].prepare(bucket.bucket)

    def prepare_others(self, lane: Lane) -> Iterator[tuple[BucketId, IndexChange]]:
        """Rebuilt index files, and those whose new name states the owner of their keys."""
        opened = self._lane(lane)
        for bucket in sorted(opened.unprepared):
            yield BucketId(lane.partition, bucket), opened.prepare(bucket)

    def appended(self, messages: Sequence[CommitMessage]) -> None:
        """Nothing: the index files have everything."""

    def _lane(self, lane: Lane) -> OpenLane:
        if lane not in self._opened:
            partition = lane.partition
            check_bucket_count(self._ctx, partition, self._partition_buckets.get(partition))
            plan = LanePlan(
                lane,
                self._lanes.assigners_in(partition),
                self._lanes.assigners,
                self._index_files.get(partition, {}),
                self._data_files.get(partition, {}),
            )
            self._opened[lane] = OpenLane(self._ctx, plan, self._environment)
        return self._opened[lane]


def _by_partition(of_buckets: Mapping[BucketId, _T]) -> Mapping[bytes, Mapping[int, _T]]:
    grouped: defaultdict[bytes, dict[int, _T]] = defaultdict(dict)
    for bucket, value in of_buckets.items():
        grouped[bucket.partition][bucket.bucket] = value
    return grouped


def _by_bucket(lane: Lane, rows: pa.Table, buckets: Buckets) -> Iterator[tuple[BucketId, pa.Table]]:
    """The rows of each bucket; those without one are left out."""
    if len(buckets) and buckets[0] != UNKNOWN and bool(np.all(buckets == buckets[0])):
        yield BucketId(lane.partition, int(buckets[0])), rows
        return
    for bucket, places in groups_of(buckets):
        if bucket != UNKNOWN:
            yield BucketId(lane.partition, bucket), rows.take(pa.array(places))
