"""The live data and index files of a table at one snapshot, kept in memory and updated by deltas.

Implements the reader's rule of base ++ delta manifests. Loading reads all manifests of the table once. An update to a
later snapshot reads only the changes, and nothing for own commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from paimon_table.errors import BrokenInvariant, CorruptFile
from paimon_table.metadata.bucket_id import POSTPONED, BucketId
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.entry_row import KnownBuckets, live_rows
from paimon_table.metadata.index_file import HASH, IndexFileMeta
from paimon_table.metadata.index_manifest import IndexEntry, deletion_files
from paimon_table.metadata.manifest import ADD, ManifestEntry
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.metadata.paths import TablePaths
from paimon_table.metadata.snapshot import BEFORE_THE_FIRST, Snapshot, SnapshotIdentity, SnapshotStore
from paimon_table.storage.file_io import FileIO
from paimon_table.surroundings import many_values


@dataclass(frozen=True, slots=True)
class BucketState:
    """The content of one bucket in a snapshot, from which its writer continues; empty by default."""

    files: tuple[DataFileMeta, ...] = ()
    """Live data files."""
    deletion_files: tuple[IndexFileMeta, ...] = ()
    """Index files with the deletion vectors of the bucket."""
    partition_buckets: int | None = None
    """The number of buckets of its partition's live files; None without live files."""


@dataclass(frozen=True, slots=True)
class LiveFiles:
    """The content of all buckets, as a picklable value for executors; shares its parts with the table's state."""

    files: Mapping[BucketId, tuple[DataFileMeta, ...]] = field(default_factory=dict)
    deletion_files: Mapping[BucketId, tuple[IndexFileMeta, ...]] = field(default_factory=dict)
    partition_buckets: Mapping[bytes, int] = field(default_factory=dict)
    hash_files: Mapping[BucketId, IndexFileMeta] = field(default_factory=dict)
    """Index files with the key hashes of dynamic buckets."""
    at: SnapshotIdentity = BEFORE_THE_FIRST
    """The snapshot with this content."""
    key_lanes: int | None = None
    """Lanes that share the keys of all partitions (KEY_DYNAMIC), if their number differs from the options."""

    def of(self, bucket: BucketId) -> BucketState:
        return BucketState(
            self.files.get(bucket, ()),
            self.deletion_files.get(bucket, ()),
            self.partition_buckets.get(bucket.partition),
        )


@dataclass(frozen=True, slots=True)
class TableState:
    """Live data files by bucket, without empty buckets. ``snapshot`` is None before the first one."""

    snapshot: Snapshot | None = None
    files: Mapping[BucketId, tuple[DataFileMeta, ...]] = field(default_factory=dict)
    total_buckets: Mapping[bytes, int] = field(default_factory=dict)
    """The number of buckets of each partition's files, without files of postponed buckets."""
    index: tuple[IndexEntry, ...] = ()
    """All index files."""

    @property
    def snapshot_id(self) -> int:
        """Id of the snapshot, 0 before the first."""
        return self.snapshot.id if self.snapshot is not None else 0

    @property
    def identity(self) -> SnapshotIdentity:
        return BEFORE_THE_FIRST if self.snapshot is None else self.snapshot.identity

    def files_of(self, bucket: BucketId) -> tuple[DataFileMeta, ...]:
        return self.files.get(bucket, ())

    def buckets_beside(self, bucket: BucketId) -> int:
        """The number of buckets in the manifest entries of the bucket's files."""
        return POSTPONED if bucket.bucket == POSTPONED else self.total_buckets[bucket.partition]

    def live_files(self) -> LiveFiles:
        """The state from which writers continue."""
        return LiveFiles(
            self.files,
            self.deletion_files(),
            self.total_buckets,
            self.hash_files(),
            self.identity,
        )

    def deletion_files(self) -> dict[BucketId, tuple[IndexFileMeta, ...]]:
        """The files with deletion vectors, by bucket."""
        return deletion_files(self.index)

    def hash_files(self) -> dict[BucketId, IndexFileMeta]:
        """The file with the key hashes by bucket: at most one per bucket, see ``index_manifest.combined``."""
        return {entry.bucket: entry.file for entry in self.index if entry.file.index_type == HASH}

    def with_committed(
        self, snapshot: Snapshot, entries: Sequence[ManifestEntry], index: tuple[IndexEntry, ...] | None = None
    ) -> TableState:
        """The state at ``snapshot``, the direct successor, whose delta is ``entries``; reads nothing.

        ``index`` are its index files; None if they are unchanged.
        """
        if snapshot.id != self.snapshot_id + 1:
            raise BrokenInvariant(
                f"snapshot {snapshot.id} does not follow snapshot {self.snapshot_id}; load the state again"
            )
        files = dict(self.files)
        totals = dict(self.total_buckets)
        for bucket, changes in _by_bucket(entries).items():
            gone = {change.identity for change in changes if change.kind != ADD}
            kept = [f for f in files.pop(bucket, ()) if ManifestEntry(ADD, bucket, 0, f).identity not in gone]
            kept += [change.file for change in changes if change.kind == ADD and change.identity not in gone]
            if kept:
                files[bucket] = tuple(kept)
        for entry in entries:
            if entry.kind == ADD and entry.bucket.bucket != POSTPONED:
                totals[entry.bucket.partition] = entry.total_buckets
        live_partitions = {bucket.partition for bucket in files if bucket.bucket != POSTPONED}
        totals = {p: total for p, total in totals.items() if p in live_partitions}
        return TableState(snapshot, files, totals, self.index if index is None else index)


def load_state(io: FileIO, paths: TablePaths, snapshot: Snapshot | None) -> TableState:
    """Read the live files of a snapshot from its manifests, and its index files."""
    if snapshot is None:
        return TableState()
    reader = ManifestReader(io, paths)
    files: dict[BucketId, list[DataFileMeta]] = {}
    totals: dict[bytes, int] = {}
    buckets = KnownBuckets()
    with many_values():
        rows = [row for manifest in reader.all_manifests(snapshot) for row in reader.rows_of(manifest)]
        for row in live_rows(rows):
            files.setdefault(buckets[row.partition, row.bucket], []).append(row.file)
            if row.bucket != POSTPONED:
                totals[row.partition] = row.total_buckets
        live = {bucket: tuple(metas) for bucket, metas in files.items()}
        return TableState(snapshot, live, totals, reader.index_entries(snapshot))


def advance_state(io: FileIO, paths: TablePaths, state: TableState, latest: Snapshot | None) -> TableState:
    """``state`` updated to the newest snapshot, by deltas if they still exist, else by a new load.

    The snapshot of ``state`` must still have its id, or have had it until it expired. After a rollback, or in a
    recreated table, the id may belong to another snapshot.
    """
    if latest is None:
        return TableState()
    if latest.is_same(state.snapshot):
        return state
    snapshots, latest_id = SnapshotStore(io, paths), latest.id
    if state.snapshot is None or latest_id <= state.snapshot_id:
        return load_state(io, paths, latest)
    reader = ManifestReader(io, paths)
    index_manifest = state.snapshot.index_manifest
    for snapshot_id in range(state.snapshot_id + 1, latest_id + 1):
        snapshot = snapshots.find(snapshot_id)
        if snapshot is None:
            return load_state(io, paths, latest)
        try:
            entries = reader.delta_entries(snapshot)
        except CorruptFile:
            if snapshots.find(snapshot_id) is not None:
                raise
            return load_state(io, paths, latest)  # it has just expired
        state = state.with_committed(snapshot, entries)
    newest = state.snapshot
    if newest is not None and newest.index_manifest != index_manifest:
        state = replace(state, index=reader.index_entries(newest))
    return state


def _by_bucket(entries: Iterable[ManifestEntry]) -> dict[BucketId, list[ManifestEntry]]:
    grouped: dict[BucketId, list[ManifestEntry]] = {}
    for entry in entries:
        grouped.setdefault(entry.bucket, []).append(entry)
    return grouped
