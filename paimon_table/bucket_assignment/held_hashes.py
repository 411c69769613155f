"""A cache of the index files that a process has read or written, by name; bounded in bytes.

A file is written once and never changed, so commits cannot outdate the cache. Nobody requests a file that no snapshot
names.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import cache

from paimon_table.rows.sorted_values import SortedValues

HELD_BYTES = 128 << 20


class HeldHashes:
    """The most recently used hashes. Threads may share it."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, SortedValues] = OrderedDict()
        self._size_bytes = 0
        self._lock = threading.Lock()

    def get(self, path: str) -> SortedValues | None:
        with self._lock:
            hashes = self._held.get(path)
            if hashes is not None:
                self._held.move_to_end(path)
            return hashes

    def put(self, path: str, hashes: SortedValues) -> None:
        """Add the hashes of an index file; evicts the least recently used ones if all exceed the limit."""
        with self._lock:
            self._drop(path)
            self._held[path] = hashes
            self._size_bytes += hashes.values.nbytes
            while self._size_bytes > HELD_BYTES and len(self._held) > 1:
                self._drop(next(iter(self._held)))

    def drop(self, path: str) -> None:
        """Evict a file that was replaced, or whose contents are kept elsewhere."""
        with self._lock:
            self._drop(path)

    def _drop(self, path: str) -> None:
        hashes = self._held.pop(path, None)
        if hashes is not None:
            self._size_bytes -= hashes.values.nbytes


@cache
def held_hashes() -> HeldHashes:
    """The cache of this process."""
    return HeldHashes()
