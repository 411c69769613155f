"""Tables whose primary key lacks a partition column: a key has one row in all partitions together.

Implements Paimon's cross-partition updates. The lane of a row is the hash of its whole primary key. In every partition
a lane owns the buckets with |bucket % lanes| equal to its number. So one task deletes a row in its old partition and
writes it to the new one. The index of keys (``key_index``) has the place of each key; new keys fill buckets like
dynamic buckets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_table.bucket_assignment.former_places import FormerPlaces
from paimon_table.bucket_assignment.key_rows import LaneRows, PlacedRows, place_rows
from paimon_table.bucket_assignment.lanes import Lane
from paimon_table.bucket_assignment.owned_buckets import FillLimits, OwnedBuckets, assigner_count
from paimon_table.key_index.index_runs import whole_key_order
from paimon_table.key_index.lane_index import LANES_PROPERTY, IndexPlace, LaneIndex
from paimon_table.key_index.stored_keys import LaneNumber, key_magnitudes
from paimon_table.lookup.cache import shared_lookup_cache
from paimon_table.lookup.lookup_file import Hits
from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.index_file import IndexChange
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import LiveFiles
from paimon_table.options.bucket_mode import BucketMode, bucket_mode
from paimon_table.options.table_options import TableOptions
from paimon_table.rows.gather import gather
from paimon_table.rows.groups import groups_of
from paimon_table.rows.words import Indices
from paimon_table.schema.table_schema import TableSchema
from paimon_table.write.bucket_writer import BucketWriter, WriterEnvironment
from paimon_table.write.incoming import kept_kinds, row_kinds


def key_lanes(options: TableOptions, live: LiveFiles) -> int:
    """How many lanes share the keys of a table."""
    return live.key_lanes or assigner_count(options)


def key_lane_properties(schema: TableSchema, options: TableOptions, live: LiveFiles) -> Mapping[str, str]:
    """The snapshot properties with the number of lanes of a table of this kind."""
    if bucket_mode(schema, options) is not BucketMode.KEY_DYNAMIC:
        return {}
    return {LANES_PROPERTY: str(key_lanes(options, live))}


@dataclass(frozen=True, slots=True)
class KeyLanes:
    """Lanes by the hash of the whole primary key, over all partitions."""

    schema: TableSchema
    lanes: int

    def split(self, rows: pa.Table) -> Iterator[tuple[Lane, pa.Table]]:
        """See ``LaneSplit``."""
        if rows.num_rows == 0:
            return
        if self.lanes == 1:
            yield Lane(EMPTY_ROW, 0), rows
            return
        for number, indices in groups_of(key_magnitudes(self.schema, rows) % self.lanes):
            yield Lane(EMPTY_ROW, number), gather(rows, indices)


class KeyAssigner:
    """See ``BucketAssigner``. Raises LanesDoNotFit if other writers filled buckets by another number of lanes."""

    def __init__(self, ctx: TableContext, live: LiveFiles, environment: WriterEnvironment) -> None:
        self._ctx = ctx
        self._live = live
        self._environment = environment
        self._lane_count = key_lanes(ctx.options, live)
        self._indexes: dict[int, LaneIndex] = {}
        self._former_places: dict[int, FormerPlaces] = {}
        self._placed: dict[int, PlacedRows] = {}
        self._writers: dict[BucketId, BucketWriter] = {}

    def assign(self, lane: Lane, rows: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """See ``BucketAssigner``. Adds the deletes of moved rows, and leaves out rows without effect."""
        kinds = row_kinds(rows, self._ctx.options, self._ctx.paths.root)
        keep = kept_kinds(kinds, self._ctx.options)
        if keep is not None:
            rows, kinds = rows.filter(pa.array(keep)), kinds[keep]
        if rows.num_rows == 0:
            return
        index = self._index(lane)
        first, number = index.order.distinct(rows)
        keys = rows.select(list(self._ctx.schema.primary_keys)).take(pa.array(first))
        of_lane = LaneRows(rows, kinds, keys, number, index.find(keys), tuple(index.buckets))
        filling = _Filling(self._ctx.options, index, LaneNumber(self._lane_count, lane.number))
        placed = place_rows(self._ctx, of_lane, self._stored, filling.buckets)
        self._placed[lane.number] = placed
        yield from placed.by_bucket()

    def find(self, lane: Lane, keys: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """See ``BucketAssigner``."""
        index = self._index(lane)
        keys = gather(keys, index.order.distinct(keys)[0])
        slots = index.find(keys.select(list(self._ctx.schema.primary_keys)))
        for slot, positions in groups_of(slots):
            if slot >= 0:
                yield index.buckets[slot], gather(keys, positions)

    def find_former(self, lane: Lane, keys: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """See ``BucketAssigner``. Does not use the index, because a rebuilt index has no deleted rows."""
        keys = gather(keys, whole_key_order(self._ctx.schema, self._ctx.options).distinct(keys)[0])
        if lane.number not in self._former_places:
            number = LaneNumber(self._lane_count, lane.number)
            self._former_places[lane.number] = FormerPlaces(self._ctx, self._live, number, self._environment)
        return self._former_places[lane.number].find(keys.select(list(self._ctx.schema.primary_keys)))

    def prepare_append(self, bucket: BucketId) -> IndexChange:
        """No file, because the table itself has the places of its keys; only the snapshot by which keys got their
        places."""
        return IndexChange(keys_seen=self._live.at)

    def prepare_others(self, lane: Lane) -> Iterator[tuple[BucketId, IndexChange]]:
        """Nothing: buckets without rows need no notes."""
        return iter(())

    def appended(self, messages: Sequence[CommitMessage]) -> None:
        """Keep the places of the keys for the next batch, valid once these messages are committed."""
        names: defaultdict[int, set[str]] = defaultdict(set)
        for message in messages:
            names[message.bucket.bucket % self._lane_count].update(file.file_name for file in message.new_files)
        for number, file_names in names.items():
            placed = self._placed.get(number)
            if placed is not None and file_names:
                self._indexes[number].note(placed.changed_keys, placed.buckets, placed.changed_slots, file_names)

    def _index(self, lane: Lane) -> LaneIndex:
        if lane.number not in self._indexes:
            environment = self._environment
            cache = shared_lookup_cache(environment.lookup_dir, environment.lookup_max_bytes)
            place = IndexPlace(environment.lookup_dir, cache, environment.clock_ms, self._positions)
            number = LaneNumber(self._lane_count, lane.number)
            self._indexes[lane.number] = LaneIndex(self._ctx, self._live, number, place)
        return self._indexes[lane.number]

    def _positions(self, bucket: BucketId, keys: pa.Table) -> Indices:
        return self._stored(bucket, keys).positions

    def _stored(self, bucket: BucketId, keys: pa.Table) -> Hits:
        """The rows of keys in a bucket as it was before the batch."""
        if bucket not in self._writers:
            state = self._live.of(bucket)
            self._writers[bucket] = BucketWriter(self._ctx, bucket, state, self._environment)
        return self._writers[bucket].find_rows(keys.select(list(self._ctx.schema.trimmed_primary_keys)))


class _Filling:
    """Assigns buckets of partitions to keys that have none there; for one lane of one batch."""

    def __init__(self, options: TableOptions, index: LaneIndex, lane: LaneNumber) -> None:
        self._limits = FillLimits.of(options)
        self._index = index
        self._lane = lane
        self._owned: dict[bytes, OwnedBuckets] = {}

    def buckets(self, partition: bytes, count: int) -> Indices:
        """Buckets for this many keys, in their order."""
        if partition not in self._owned:
            counts = self._index.counts_in(partition)
            self._owned[partition] = OwnedBuckets(self._limits, self._lane.lanes, self._lane.number, counts)
        return self._owned[partition].fill(count).astype(np.int64)
