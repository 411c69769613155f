"""Walking far back over the snapshots of a table: on object storage each is a request, so several go side by side."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from paimon_table.metadata.snapshot import Snapshot, SnapshotStore

_READERS = 16


def snapshots_before(store: SnapshotStore, snapshot_id: int, after_id: int = 0) -> Iterator[Snapshot]:
    """The snapshots between ``after_id`` and ``snapshot_id``, without these, newest first; ends at expired ones.

    Begins with one at a time: as many as were asked for are read ahead, at most, and never one up to ``after_id``.
    CorruptFile for one that is missing among others.
    """
    with ThreadPoolExecutor(_READERS, thread_name_prefix="tidemark-snapshots") as readers:
        width, next_id = 1, snapshot_id - 1
        while next_id > after_id:
            ids = range(next_id, max(next_id - width, after_id), -1)
            for read_id, found in zip(ids, readers.map(store.find, ids), strict=True):
                snapshot = found or store.find_unless_lost(read_id)
                if snapshot is None:
                    return
                yield snapshot
            next_id, width = ids[-1] - 1, min(2 * width, _READERS)
