"""One lane of dynamic buckets while a batch writes it.

If the number of assigners that wrote the index files of a partition is unknown, the partition is one lane. Opening it
checks the hashes. If they fit several assigners, new keys are placed in the same way, and the names of the files state
that number. The next batch then has that many lanes. Otherwise the name of one file states a single assigner, which
saves later checks.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

import numpy as np

from paimon_table.bucket_assignment.dynamic_lanes import assigner_numbers
from paimon_table.bucket_assignment.held_hashes import held_hashes
from paimon_table.bucket_assignment.key_places import UNKNOWN, place_of
from paimon_table.bucket_assignment.lane_hashes import lane_directory, open_lane_hashes
from paimon_table.bucket_assignment.lanes import Lane
from paimon_table.bucket_assignment.owned_buckets import Buckets, FillLimits, OwnedBuckets
from paimon_table.data_files.key_value_file import iter_key_value_batches
from paimon_table.errors import BrokenInvariant, CorruptFile
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.hash_index import (
    KeyHashes,
    assigners_of,
    distinct,
    hash_index_path,
    read_hashes,
    write_hashes,
)
from paimon_table.metadata.index_file import IndexChange, IndexFileMeta
from paimon_table.metadata.table_context import TableContext
from paimon_table.rows.groups import first_of_each, groups_of
from paimon_table.rows.hashes import Hashes
from paimon_table.rows.sorted_values import SortedValues
from paimon_table.schema.key_numbers import key_hashes
from paimon_table.step_times import timed
from paimon_table.write.bucket_writer import WriterEnvironment

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LanePlan:
    """The content of a snapshot in the partition of a lane, and how lanes share the partition."""

    lane: Lane
    assigners: int
    """The number of assigners that share the partition in this batch."""
    wanted: int
    """The number of assigners that share a new partition."""
    index_files: Mapping[int, IndexFileMeta]
    """The index files of all buckets of the partition."""
    data_files: Mapping[int, tuple[DataFileMeta, ...]]

    def owns(self, bucket: int) -> bool:
        return bucket >= 0 and bucket % self.assigners == self.lane.number


class OpenLane:
    """A lane that one task writes in one batch; see the module."""

    def __init__(self, ctx: TableContext, plan: LanePlan, environment: WriterEnvironment) -> None:
        self._ctx = ctx
        self._plan = plan
        self._environment = environment
        self._seen = frozenset((bucket, file.file_name) for bucket, file in plan.index_files.items())
        self._files = {bucket: file for bucket, file in plan.index_files.items() if plan.owns(bucket)}
        self._made_again: dict[int, SortedValues] = {}
        self.unprepared: set[int] = set()
        """Buckets that need an index file even without new rows."""
        for bucket in plan.data_files:
            if plan.owns(bucket) and bucket not in self._files:
                self._load(bucket)
        self._promised = self._find_assigners()
        limits = FillLimits.of(ctx.options)
        counts = {b: f.row_count for b, f in self._files.items()} | {b: len(h) for b, h in self._made_again.items()}
        self._owned = {
            number: OwnedBuckets(limits, self._promised, number, _of_assigner(counts, self._promised, number))
            for number in range(plan.lane.number, self._promised, plan.assigners)
        }
        names = {bucket: self._files[bucket].file_name if bucket in self._files else "" for bucket in counts}
        directory = lane_directory(ctx, plan.lane, plan.assigners, environment.lookup_dir)
        self._index = open_lane_hashes(directory, names, self._growing, self._load)
        for bucket in self._index.merged_buckets:
            self._forget(bucket)
        self._fresh = SortedValues(np.empty(0, np.int32)), np.empty(0, np.int16)
        self._new: defaultdict[int, list[KeyHashes]] = defaultdict(list)

    def find(self, hashes: Hashes) -> Buckets:
        """The bucket of each hash in the current table; ``UNKNOWN`` for one without a bucket."""
        each, _, which = first_of_each(hashes)
        return self._index.find(each)[which]

    @timed("assign")
    def assign(self, hashes: Hashes) -> Buckets:
        """The bucket of each hash; new ones get theirs in order of arrival."""
        each, first, which = first_of_each(hashes)
        if (assigner_numbers(each, self._plan.assigners) != self._plan.lane.number).any():
            raise BrokenInvariant(
                f"{self._plan.lane} received keys of another assigner; nothing was written: please report this"
            )
        buckets = np.maximum(self._index.find(each), place_of(each, *self._fresh))
        unknown = np.flatnonzero(buckets == UNKNOWN)
        if len(unknown):
            arrived = unknown[np.argsort(first[unknown])]
            for number, places in groups_of(assigner_numbers(each[arrived], self._promised)):
                buckets[arrived[places]] = self._owned[number].fill(len(places))
            self._note(each[unknown], buckets[unknown])
        return buckets[which]

    @timed("assign")
    def prepare(self, bucket: int) -> IndexChange:
        """The index file of a bucket with its new keys; no change without new keys."""
        new = self._new.pop(bucket, [])
        if not new and bucket not in self.unprepared:
            return IndexChange(seen=self._seen)
        before = self._files.get(bucket)
        is_known = before is not None or bucket in self._made_again
        held = self._load(bucket) if is_known else SortedValues(np.empty(0, np.int32))
        hashes = held.with_added(np.sort(np.concatenate([np.empty(0, np.int32), *new])))
        self.unprepared.discard(bucket)
        uuid = self._environment.new_uuid()
        written = write_hashes(self._ctx.io, self._ctx.paths, uuid, self._promised, hashes.values)
        self._forget(bucket)
        held_hashes().put(hash_index_path(self._ctx.paths, written), hashes)
        return IndexChange(() if before is None else (before,), (written,), self._seen)

    def _note(self, hashes: KeyHashes, buckets: Buckets) -> None:
        """Remember assignments for later rows of the batch and for the index files."""
        for bucket, places in groups_of(buckets):
            self._new[bucket].append(hashes[places])
        together = np.concatenate([self._fresh[0].values, hashes])
        order = np.argsort(together)
        self._fresh = SortedValues(together[order]), np.concatenate([self._fresh[1], buckets])[order]

    def _growing(self) -> frozenset[int]:
        """Buckets whose index file will change, or is missing."""
        return frozenset(self._made_again).union(*(owned.growing for owned in self._owned.values()))

    # ------------------------------------------------------------ by how many assigners

    def _find_assigners(self) -> int:
        """The number of assigners that fits every hash of the lane, new ones included; see the module."""
        plan = self._plan
        silent = [bucket for bucket, file in self._files.items() if assigners_of(file) is None]
        silent += self._made_again.keys() - self._files.keys()
        if plan.assigners > 1 or not silent:
            return plan.assigners
        shared = gcd(plan.wanted, *(assigners_of(file) or 0 for file in self._files.values()))
        numbers = [number for number in range(shared, 1, -1) if shared % number == 0]
        misfit = silent[0]
        for bucket in silent:
            fitting = [number for number in numbers if _fits(self._load(bucket).values, bucket, number)]
            misfit = misfit if fitting == numbers else bucket
            numbers = fitting
        if shared > 1:
            self.unprepared.update(silent if numbers else [misfit])
        return numbers[0] if numbers else 1

    # ------------------------------------------------------------ contents of buckets

    def _load(self, bucket: int) -> SortedValues:
        if bucket in self._made_again:
            return self._made_again[bucket]
        file = self._files.get(bucket)
        if file is None:
            return self._make_again(bucket, f"bucket {bucket} has no index file")
        path = hash_index_path(self._ctx.paths, file)
        hashes = held_hashes().get(path)
        if hashes is None:
            try:
                hashes = SortedValues(read_hashes(self._ctx.io, self._ctx.paths, file))
            except CorruptFile as error:
                return self._make_again(bucket, str(error))
            held_hashes().put(path, hashes)
        return hashes

    def _forget(self, bucket: int) -> None:
        """Evict the contents of an index file from memory; a later use reads them again."""
        if bucket in self._files:
            held_hashes().drop(hash_index_path(self._ctx.paths, self._files[bucket]))

    def _make_again(self, bucket: int, why: str) -> SortedValues:
        """The hashes of the keys in the data files of a bucket; they replace its index file in the next commit."""
        place = BucketId(self._plan.lane.partition, bucket)
        log.warning("%s: %s; it is rebuilt from the keys of the bucket", self._ctx.bucket_dir(place), why)
        names = self._ctx.schema.trimmed_primary_keys
        found = [np.empty(0, np.int32)]
        for file in self._plan.data_files.get(bucket, ()):
            partition = self._ctx.partition_values(place.partition)
            for rows in iter_key_value_batches(self._ctx, self._ctx.bucket_dir(place), file, names, partition):
                found.append(distinct(key_hashes(self._ctx.schema, rows)))
        self._made_again[bucket] = SortedValues(distinct(np.concatenate(found)))
        self.unprepared.add(bucket)
        return self._made_again[bucket]


def _of_assigner(counts: Mapping[int, int], assigners: int, number: int) -> dict[int, int]:
    return {bucket: count for bucket, count in counts.items() if bucket % assigners == number}


def _fits(hashes: KeyHashes, bucket: int, assigners: int) -> bool:
    """Whether the hashes fit into the bucket with this many assigners."""
    return bool((assigner_numbers(hashes, assigners) == bucket % assigners).all())
