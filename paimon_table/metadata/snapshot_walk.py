"""Reads many snapshots of a table, newest first: each one is a request to object storage, so several run in
parallel."""

from __future__ import annotations

from collections.abc import Iterator

from paimon_table.metadata.snapshot import Snapshot, SnapshotStore
from paimon_table.side_by_side import in_parallel

_READERS = 16


def snapshots_before(store: SnapshotStore, snapshot_id: int, after_id: int = 0) -> Iterator[Snapshot]:
    """The snapshots between ``after_id`` and ``snapshot_id`` (both exclusive), newest first; ends at expired ones.

    It begins with one at a time, and prefetches at most as many as were consumed, never one up to ``after_id``. Raises
    CorruptFile for a snapshot that is missing among others.
    """
    width, next_id = 1, snapshot_id - 1
    while next_id > after_id:
        ids = range(next_id, max(next_id - width, after_id), -1)
        for read_id, found in in_parallel(store.find, ids, width):
            snapshot = found or store.find_unless_lost(read_id)
            if snapshot is None:
                return
            yield snapshot
        next_id, width = ids[-1] - 1, min(2 * width, _READERS)
