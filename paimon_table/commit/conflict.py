"""Whether a delta may follow a state of the table.

Implements Paimon's commit conflict checks over the changed buckets, as pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from paimon_table.mergetree.levels import find_overlap
from paimon_table.metadata.bucket_id import POSTPONED, BucketId
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.index_file import DELETION_VECTORS, HASH
from paimon_table.metadata.index_manifest import IndexEntry
from paimon_table.metadata.manifest import ADD, Identity, ManifestEntry
from paimon_table.metadata.snapshot import CommitKind, Snapshot, SnapshotIdentity
from paimon_table.metadata.table_state import TableState
from paimon_table.types import DataType


def find_inconsistency(delta: Sequence[ManifestEntry]) -> str | None:
    """A fault within a delta: a file identity added twice, deleted twice, or both added and deleted.

    Scans ignore the order of entries, so a file that is added and deleted under one identity stays invisible.
    """
    seen: dict[Identity, int] = {}
    for entry in delta:
        if entry.identity in seen:
            kinds = {seen[entry.identity], entry.kind}
            what = "added twice" if kinds == {ADD} else "deleted twice" if ADD not in kinds else "added and deleted"
            return f"file {entry.file.file_name} of bucket {entry.bucket.bucket} is {what} on level {entry.file.level}"
        seen[entry.identity] = entry.kind
    return None


def find_bucket_change(state: TableState, delta: Iterable[ManifestEntry]) -> str | None:
    """The first partition for which the delta changes the number of buckets; a key's rows would be in two buckets."""
    for entry in delta:
        if entry.bucket.bucket == POSTPONED:
            continue
        present = state.total_buckets.get(entry.bucket.partition)
        if present not in (None, 0, entry.total_buckets) and entry.kind == ADD:
            return f"it writes with bucket num {entry.total_buckets}, but the partition's bucket num is {present}"
    return None


def find_waiting(state: TableState, delta: Iterable[ManifestEntry]) -> BucketId | None:
    """The first bucket that gets rows while older rows of its partition wait in bucket -2, which would replace them."""
    for entry in delta:
        waits = BucketId(entry.bucket.partition, POSTPONED)
        if entry.kind == ADD and entry.bucket.bucket != POSTPONED and state.files_of(waits):
            return entry.bucket
    return None


def find_conflict(state: TableState, delta: Sequence[ManifestEntry], key_types: Sequence[DataType]) -> str | None:
    """The first reason why ``delta`` cannot follow ``state``; None if it can.

    Every deleted file must be live, no added file may be, and the files of one level above 0 may not overlap.
    """
    live: dict[BucketId, dict[Identity, DataFileMeta]] = {}
    for bucket in {entry.bucket for entry in delta}:
        files = state.files_of(bucket)
        live[bucket] = {ManifestEntry(ADD, bucket, 0, file).identity: file for file in files}
    for entry in delta:
        files_here = live[entry.bucket]
        if entry.kind != ADD and files_here.pop(entry.identity, None) is None:
            return (
                f"file deletion conflict: {entry.file.file_name} on level {entry.file.level} of bucket "
                f"{entry.bucket.bucket} is no longer live"
            )
    for entry in delta:
        if entry.kind == ADD:
            if entry.identity in live[entry.bucket]:
                return f"file {entry.file.file_name} of bucket {entry.bucket.bucket} is already in the table"
            live[entry.bucket][entry.identity] = entry.file
    for bucket, level in {
        (entry.bucket, entry.file.level) for entry in delta if entry.kind == ADD and entry.file.level
    }:
        overlap = find_overlap([f for f in live[bucket].values() if f.level == level], key_types)
        if overlap is not None:
            return f"LSM conflict in bucket {bucket.bucket} on level {level}: {overlap}"
    return None


def find_unseen_vectors(state: TableState, delta: Iterable[ManifestEntry], index: Iterable[IndexEntry]) -> str | None:
    """The first removed file with rows that a remaining index file marks as deleted.

    The rewrite of the file did not see these deletes, or it would have replaced the index file too. Its rows would
    return.
    """
    vectors = [entry for entry in state.index if entry.file.index_type == DELETION_VECTORS]
    if not vectors:
        return None
    delta = tuple(delta)
    added = {(entry.bucket, entry.file.file_name) for entry in delta if entry.kind == ADD}
    gone = {(entry.bucket, entry.file.file_name) for entry in delta if entry.kind != ADD} - added
    replaced = {entry.file.file_name for entry in index if entry.kind != ADD}
    for entry in vectors:
        if entry.file.file_name in replaced:
            continue
        for r in entry.file.vector_ranges or ():
            if (entry.bucket, r.data_file) in gone:
                return f"rows of {r.data_file} of bucket {entry.bucket.bucket} were deleted while it was compacted"
    return None


def find_unseen_hashes(state: TableState, seen: Mapping[bytes, frozenset[tuple[int, str]]]) -> str | None:
    """The first partition whose HASH index files differ from those that assigned the rows to buckets.

    Others may have put the same new keys into other buckets.
    """
    if not seen:
        return None
    present: dict[bytes, set[tuple[int, str]]] = {}
    for entry in state.index:
        if entry.file.index_type == HASH and entry.bucket.partition in seen:
            present.setdefault(entry.bucket.partition, set()).add((entry.bucket.bucket, entry.file.file_name))
    for partition, files in seen.items():
        for bucket, name in sorted(present.get(partition, set()) ^ files):
            return (
                f"index file {name} of bucket {bucket} was added or removed while keys were assigned to buckets: "
                "another job writes this partition. Dynamic buckets allow only one"
            )
    return None


def find_unseen_rows(
    seen: SnapshotIdentity | None, state: TableState, find: Callable[[int], Snapshot | None]
) -> str | None:
    """The first snapshot after ``seen`` in which others may have put the same keys into other buckets or partitions.

    ``find`` reads a snapshot by its id; None if it does not exist. Compactions move no keys.
    """
    newest = state.snapshot
    if seen is None or seen == state.identity:
        return None
    if seen.id:
        at = find(seen.id) if seen.id < state.snapshot_id else None
        if at is None or at.uuid != seen.uuid:
            return f"snapshot {seen.id}, from which keys were assigned to partitions, no longer exists"
    for snapshot_id in range(seen.id + 1, state.snapshot_id + 1):
        snapshot = newest if newest is not None and newest.id == snapshot_id else find(snapshot_id)
        if snapshot is None:
            return f"snapshot {snapshot_id} was committed and removed while keys were assigned to partitions"
        adds_rows = snapshot.commit_kind is CommitKind.APPEND and snapshot.delta_record_count != 0
        if adds_rows or snapshot.commit_kind is CommitKind.OVERWRITE:
            return (
                f"{snapshot.commit_kind} {snapshot.commit_identifier} of user {snapshot.commit_user} was committed "
                "while keys were assigned to partitions: another job writes this table"
            )
    return None


def find_unseen(state: TableState, seen: Mapping[BucketId, frozenset[tuple[int, str]]]) -> str | None:
    """The first bucket whose files above level 0 differ from those in which a compaction looked for old rows.

    Rows that others added there are not marked as deleted, so their keys would be in the table twice.
    """
    for bucket, files in seen.items():
        present = {(file.level, file.file_name) for file in state.files_of(bucket) if file.level > 0}
        for level, name in sorted(present ^ files):
            return f"{name} on level {level} of bucket {bucket.bucket} was added or removed during the lookup of rows"
    return None
