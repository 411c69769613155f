"""Walking far back over the snapshots of a table: on object storage each is a request, so several go side by side."""

from __future__ import annotations

from collections.abc import Iterator

from paimon_table.metadata.snapshot import Snapshot, SnapshotStore
from paimon_table.side_by_side import in_parallel

_READERS = 16


def snapshots_before(store: SnapshotStore, snapshot_id: int, after_id: int = 0) -> Iterator[Snapshot]:
    """The snapshots between ``after_id`` and ``snapshot_id``, without these, newest first; ends at expired ones.

    Begins with one at a time: as many as were asked for are read ahead, at most, and never one up to ``after_id``.
    CorruptFile for one that is missing among others.
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
