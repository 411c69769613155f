"""The key index of one lane in one task: opened for a snapshot, read, and updated with new rows.

Opening loads the index that processes of this machine have saved and advances it to the snapshot of the batch.
Assignments of the lane become valid when their files are committed; keys in files of other writers are looked up in the
table. After a change that it cannot follow (an overwrite, expired snapshots, a rollback), the index is rebuilt from the
files of the lane.
"""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_table.errors import ConfigError, CorruptFile
from paimon_table.key_index.index_files import IndexFiles, Pending
from paimon_table.key_index.index_runs import LARGEST_RUN_ROWS, IndexRuns, Slots, whole_key_order
from paimon_table.key_index.key_index import KeyIndex
from paimon_table.key_index.stored_keys import (
    LaneNumber,
    check_lane,
    concat_keys,
    file_keys,
    key_magnitudes,
    stored_keys,
)
from paimon_table.lookup.cache import LookupCache
from paimon_table.lookup.lookup_file import BrokenLookupFile
from paimon_table.metadata.bucket_id import POSTPONED, BucketId
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.manifest import ADD
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.metadata.snapshot import CommitKind, Snapshot, SnapshotIdentity
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import LiveFiles
from paimon_table.rows.gather import gather
from paimon_table.rows.words import Indices
from paimon_table.step_times import timed

log = logging.getLogger(__name__)

LANES_PROPERTY = "tidemark.lanes"
"""Snapshot property: the number of lanes that assigned the rows of its level-0 files."""

FindKeys = Callable[[BucketId, pa.Table], Indices]
"""Returns the positions of the keys that have a row in a bucket; takes a table of trimmed keys, each once."""

Added = Mapping[BucketId, Sequence[DataFileMeta]]


@dataclass(frozen=True, slots=True)
class IndexPlace:
    """The environment of a lane's index in a process."""

    lookup_dir: str
    cache: LookupCache
    clock_ms: Callable[[], int]
    find_keys: FindKeys


class LaneIndex:
    """The index of a lane for one batch of one task; see the module."""

    def __init__(self, ctx: TableContext, live: LiveFiles, lane: LaneNumber, place: IndexPlace) -> None:
        self._ctx = ctx
        self._live = live
        self._lane = lane
        self._place = place
        self._at = live.at
        schema = ctx.schema.arrow_schema
        key_schema = pa.schema([schema.field(name) for name in ctx.schema.primary_keys])
        self.order = whole_key_order(ctx.schema, ctx.options)
        self._runs = IndexRuns(place.cache, self.order, key_schema)
        self._files = IndexFiles(place.lookup_dir, ctx.paths.snapshot_dir, lane, key_schema)
        self._index = self._opened()

    # ------------------------------------------------------------ asked

    @property
    def buckets(self) -> Sequence[BucketId]:
        """The bucket of each slot."""
        return self._index.buckets

    def counts_in(self, partition: bytes) -> dict[int, int]:
        """The keys per bucket of a partition, for the buckets of the lane."""
        return self._index.counts_in(partition)

    def find(self, keys: pa.Table) -> Slots:
        """The slot of each key, -1 for a key without a row; ``keys`` are sorted, each once.

        The result may include slots of deleted rows: a slot is the place of the row, if there is one.
        """
        try:
            return self._runs.find(self._index.runs, keys)
        except BrokenLookupFile:
            self._index = self._saved(self._built())
            return self._runs.find(self._index.runs, keys)

    def note(self, keys: pa.Table, buckets: Sequence[BucketId], slots: Slots, file_names: Iterable[str]) -> None:
        """Record the places of keys after a commit of the files; ``slots`` are positions in ``buckets``. Keys as in
        ``find``."""
        self._files.add_pending(Pending(frozenset(file_names), keys, slots, tuple(buckets)))

    # ------------------------------------------------------------ opened

    def _opened(self) -> KeyIndex:
        found = self._files.load()
        if found is not None and found.at == self._at:
            return found
        try:
            followed = None if found is None else self._followed(found)
        except BrokenLookupFile:
            followed = None
        if followed is None or followed.is_bloated:
            followed = self._built()
        return self._saved(followed, found)

    def _saved(self, index: KeyIndex, before: KeyIndex | None = None) -> KeyIndex:
        """Save the index; deletes files that only the previous one named."""
        self._files.save(index)
        self._files.forget_pending()
        # Unreferenced: only the previous index named them, and open files stay readable.
        self._runs.keep(index.runs, () if before is None else before.runs)
        return index

    @timed("keys")
    def _built(self) -> KeyIndex:
        """Build the index from the table."""
        options = self._ctx.options
        ttl_ms = options.index_ttl_ms
        since_ms = None if ttl_ms is None else self._place.clock_ms() - ttl_ms
        threads = min(options.index_bootstrap_parallelism, os.cpu_count() or 1)
        index = KeyIndex(self._at, (), (), ())
        waiting: list[tuple[BucketId, pa.Table]] = []
        waiting_rows = 0
        for bucket, keys in stored_keys(self._ctx, self._live, self._lane, threads, since_ms):
            if waiting and waiting_rows + keys.num_rows > LARGEST_RUN_ROWS // 2:
                index, waiting, waiting_rows = self._with_stored(index, waiting), [], 0
            waiting.append((bucket, keys))
            waiting_rows += keys.num_rows
        index = self._with_stored(index, waiting)
        log.debug("%s: the index of lane %d has %d keys", self._ctx.paths.root, self._lane.number, index.key_count)
        return index

    def _with_stored(self, index: KeyIndex, parts: Sequence[tuple[BucketId, pa.Table]]) -> KeyIndex:
        """The index with keys of the table. Raises an error for a key in two buckets; with a TTL the newer file counts
        instead."""
        if not parts:
            return index
        index, numbers = index.with_buckets([bucket for bucket, _ in parts])
        keys = concat_keys(self._ctx.schema, (part for _, part in parts))
        slots = np.repeat(numbers, [part.num_rows for _, part in parts]).astype(np.int32)
        first, number = self.order.distinct(keys)
        distinct = gather(keys, first)
        before = self._runs.find(index.runs, distinct)
        if self._ctx.options.index_ttl_ms is None:
            self._refuse_repeated(index, keys, slots, first[number], before[number])
        fresh = np.flatnonzero(before < 0)
        return index.with_entries(self._runs, self._files.new_run_name(), gather(distinct, fresh), slots[first[fresh]])

    def _refuse_repeated(self, index: KeyIndex, keys: pa.Table, slots: Slots, first: Indices, before: Slots) -> None:
        repeated = np.flatnonzero((before >= 0) | (first != np.arange(keys.num_rows)))
        if len(repeated):
            at = int(repeated[0])
            other = int(before[at]) if before[at] >= 0 else int(slots[first[at]])
            raise self._in_two_places(keys.slice(at, 1), index.buckets[other], index.buckets[int(slots[at])])

    def _in_two_places(self, key: pa.Table, one: BucketId, other: BucketId) -> ConfigError:
        values = ", ".join(f"{name} = {value!r}" for name, value in key.to_pylist()[0].items())
        places = " and in ".join(
            f"partition {self._ctx.partition_path(bucket.partition)}, bucket {bucket.bucket}" for bucket in (one, other)
        )
        return ConfigError(
            f"{self._ctx.paths.root}: the row with {values} is in {places}, and nothing shows which one is current. "
            "Two jobs wrote it at the same time, or the table was written with a fixed number of buckets. Let only one "
            f"job write the table; `tidemark table remove-duplicates {self._ctx.paths.root}` lists such keys and keeps "
            "one row of each"
        )

    # ------------------------------------------------------------ followed

    def _followed(self, index: KeyIndex) -> KeyIndex | None:
        """The index advanced to the snapshot of the batch; None if the remaining files do not allow that."""
        if index.at.id >= self._at.id or not self._is_in_history(index.at):
            return None
        candidates: defaultdict[BucketId, list[DataFileMeta]] = defaultdict(list)
        for snapshot_id in range(index.at.id + 1, self._at.id + 1):
            snapshot = self._ctx.snapshots.find(snapshot_id)
            if snapshot is None or snapshot.commit_kind == CommitKind.OVERWRITE:
                return None
            if snapshot.commit_kind != CommitKind.APPEND:
                continue
            added = self._added(snapshot)
            if added is None:
                return None
            pending = self._pending_of(added)
            if pending is not None:
                index = self._with_pending(index, pending)
                continue
            for bucket, files in added.items():
                candidates[bucket] += files
        if candidates:
            index = self._with_candidates(index, candidates)
        return index.moved_to(self._at)

    def _is_in_history(self, at: SnapshotIdentity) -> bool:
        """Whether the snapshot is in the table's history, as far as its snapshots show."""
        if at.id == 0:
            return True
        snapshot = self._ctx.snapshots.find(at.id)
        return snapshot is not None and snapshot.uuid == at.uuid

    def _added(self, snapshot: Snapshot) -> Added | None:
        """The files that a snapshot added to the buckets of the lane; None if it also removed some.

        Raises LanesDoNotFit if a key belongs to another lane than its bucket, in any lane.
        """
        try:
            entries = ManifestReader(self._ctx.io, self._ctx.paths).delta_entries(snapshot)
        except CorruptFile:
            if self._ctx.snapshots.find(snapshot.id) is not None:
                raise
            return None  # it has expired
        if any(entry.kind != ADD for entry in entries):
            return None
        added: defaultdict[BucketId, list[DataFileMeta]] = defaultdict(list)
        is_checked = _lanes_of(snapshot) % self._lane.lanes == 0
        for entry in entries:
            if entry.bucket.bucket == POSTPONED:
                continue
            if not is_checked:
                for keys in file_keys(self._ctx, entry.bucket, [entry.file]):
                    check_lane(self._lane, entry.bucket, key_magnitudes(self._ctx.schema, keys))
            if self._lane.owns(entry.bucket):
                added[entry.bucket].append(entry.file)
        return added

    def _pending_of(self, added: Added) -> Pending | None:
        names = {file.file_name for files in added.values() for file in files}
        return next((one for one in self._files.pending() if one.file_names == names), None) if names else None

    def _with_pending(self, index: KeyIndex, pending: Pending) -> KeyIndex:
        index, numbers = index.with_buckets(pending.buckets)
        return index.with_entries(self._runs, self._files.new_run_name(), pending.keys, numbers[pending.slots])

    def _with_candidates(self, index: KeyIndex, added: Added) -> KeyIndex:
        """The index after the keys in files of other writers were looked up in the table."""
        present: list[tuple[BucketId, pa.Table]] = []
        for bucket, files in added.items():
            keys = concat_keys(self._ctx.schema, file_keys(self._ctx, bucket, files))
            keys = gather(keys, self.order.distinct(keys)[0])
            has_row = np.zeros(keys.num_rows, np.bool_)
            has_row[self._place.find_keys(bucket, keys)] = True
            index = self._without(index, bucket, keys.filter(pa.array(~has_row)))
            present.append((bucket, keys.filter(pa.array(has_row))))
        for bucket, keys in present:
            index = self._with_present(index, bucket, keys)
        return index

    def _without(self, index: KeyIndex, bucket: BucketId, keys: pa.Table) -> KeyIndex:
        """The index without keys that no longer have a row in the bucket."""
        here = np.asarray([b == bucket for b in index.buckets], np.bool_)
        slots = self._runs.find(index.runs, keys)
        gone = np.flatnonzero((slots >= 0) & here[slots]) if len(here) else np.zeros(0, np.int64)
        if len(gone) == 0:
            return index
        nowhere = np.full(len(gone), -1, np.int32)
        return index.with_entries(self._runs, self._files.new_run_name(), gather(keys, gone), nowhere)

    def _with_present(self, index: KeyIndex, bucket: BucketId, keys: pa.Table) -> KeyIndex:
        """The index with keys that have a row in the bucket; their former places must be empty now."""
        index, (slot,) = index.with_buckets([bucket])
        before = self._runs.find(index.runs, keys)
        for number, positions in _groups_of(before):
            if number in (-1, slot):
                continue
            others = gather(keys, positions)
            still = self._place.find_keys(index.buckets[number], others)
            if len(still) and self._ctx.options.index_ttl_ms is None:
                raise self._in_two_places(others.slice(int(still[0]), 1), index.buckets[number], bucket)
        slots = np.full(keys.num_rows, slot, np.int32)
        return index.with_entries(self._runs, self._files.new_run_name(), keys, slots)


def _lanes_of(snapshot: Snapshot) -> int:
    """The number of lanes that assigned the rows of a snapshot; 1 if it records none, which matches no other number."""
    stated = snapshot.properties.get(LANES_PROPERTY, "")
    return int(stated) if stated.isdigit() and int(stated) > 0 else 1


def _groups_of(numbers: Slots) -> Iterator[tuple[int, Indices]]:
    """(number, positions in order) for each number that occurs."""
    for number in np.unique(numbers):
        yield int(number), np.flatnonzero(numbers == number)
