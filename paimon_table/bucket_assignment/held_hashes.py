"""The contents of index files that a process has read or written, by their names; bounded in bytes.

A file is written once and never changed, so its held content stays right whatever is committed. Content that no
snapshot names is never requested.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import cache

from paimon_table.bucket_assignment.sorted_hashes import SortedHashes

HELD_BYTES = 128 << 20


class HeldHashes:
    """The hashes used last. May be used by several threads."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, SortedHashes] = OrderedDict()
        self._size_bytes = 0
        self._lock = threading.Lock()

    def get(self, path: str) -> SortedHashes | None:
        with self._lock:
            hashes = self._held.get(path)
            if hashes is not None:
                self._held.move_to_end(path)
            return hashes

    def put(self, path: str, hashes: SortedHashes) -> None:
        """Hold the hashes of an index file; those used longest ago go where all take more room than there is."""
        with self._lock:
            self._drop(path)
            self._held[path] = hashes
            self._size_bytes += hashes.values.nbytes
            while self._size_bytes > HELD_BYTES and len(self._held) > 1:
                self._drop(next(iter(self._held)))

    def drop(self, path: str) -> None:
        """Forget a file that is replaced, or whose contents are elsewhere."""
        with self._lock:
            self._drop(path)

    def _drop(self, path: str) -> None:
        hashes = self._held.pop(path, None)
        if hashes is not None:
            self._size_bytes -= hashes.values.nbytes


@cache
def held_hashes() -> HeldHashes:
    """Those of this process."""
    return HeldHashes()
