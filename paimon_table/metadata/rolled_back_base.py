"""A snapshot whose base was rolled back between the last look at the table and the publishing.

A rollback removes the newest snapshots and then looks for commits above its target. A commit publishes first and then
looks for the snapshot that it builds on. So one of both sees the other. Without that both would report success, but the
table would still have the rolled back rows, and an id between its snapshots would be missing.
"""

from __future__ import annotations

from paimon_table.metadata.snapshot import Snapshot, SnapshotStore
from paimon_table.storage.file_io import numbers_of


def is_rolled_back(snapshots: SnapshotStore, base: Snapshot | None) -> bool:
    """Whether the snapshot that was built on is gone, and not because it has expired, or is another one."""
    if base is None:
        return False
    found = snapshots.find(base.id)
    if found is not None:
        return not base.is_same(found)
    return any(other < base.id for other in _listed(snapshots))  # expiry takes the oldest first


def take_back(snapshots: SnapshotStore, published: Snapshot) -> bool:
    """Remove a snapshot that was just published; False, and it stays, where others have built on it.

    The rollback may have removed it already, and others have given its id to another one.
    """
    io, path = snapshots.io, snapshots.paths.snapshot_file(published.id)
    above = snapshots.paths.snapshot_file(published.id + 1)
    if not published.is_same(snapshots.find(published.id)):
        return True
    if io.exists(above):
        return False
    try:
        text = io.read(path)
    except FileNotFoundError:
        return True
    io.delete(path)
    if io.exists(above):
        io.publish(path, text)
        return False
    snapshots.write_latest_hint(max(_listed(snapshots), default=0))
    return True


def _listed(snapshots: SnapshotStore) -> list[int]:
    return numbers_of(snapshots.io.list_names(snapshots.paths.snapshot_dir), "snapshot-")
