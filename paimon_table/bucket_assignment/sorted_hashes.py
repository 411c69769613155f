"""Sorted hashes with a fast search for many others at once.

Hashes of keys are evenly distributed, so the upper bits of a hash give its place to within some dozens. A table has the
start of each value of these bits, and few steps from there find the place. If hashes are unevenly distributed, the
search takes more steps, at most as many as a binary search.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from paimon_table.metadata.hash_index import KeyHashes

_STRETCH = 64
"""The hashes between two starts, on average and at most: a few lines of a processor's cache."""

_FEWEST = 4096
"""Fewer hashes fit into a processor's cache, so they need no table."""

Places = npt.NDArray[np.int64]


class SortedHashes:
    """Sorted hashes, which may repeat. Immutable, except for the table, which is built at first use."""

    __slots__ = ("_starts", "values")

    def __init__(self, values: KeyHashes, starts: Places | None = None) -> None:
        """``starts``: the table of these values."""
        self.values = values
        self._starts = starts

    def __len__(self) -> int:
        return len(self.values)

    def first_not_below(self, asked: KeyHashes) -> Places:
        """The result of ``searchsorted``. ``asked`` may have any order; sorted hashes are faster."""
        if len(self) < _FEWEST or len(asked) == 0:
            return np.asarray(np.searchsorted(self.values, asked), np.int64)
        starts = self._table()
        prefixes = _prefixes(asked, self._bits)
        places = starts.take(prefixes)
        widest = int((starts.take(prefixes + 1) - places).max())
        step = 1 << widest.bit_length() >> 1
        while step:
            below = self.values.take(places + (step - 1), mode="clip") < asked
            places += below * np.int64(step)
            step >>= 1
        return np.minimum(places, len(self))

    def with_added(self, added: KeyHashes) -> SortedHashes:
        """Merged with the sorted ``added`` hashes. Keeps the table, so that a few new keys do not rebuild it."""
        values = np.insert(self.values, self.first_not_below(added), added)
        together = SortedHashes(values)
        if self._starts is not None and together._bits == self._bits:
            counts = np.bincount(_prefixes(added, self._bits) + 1, minlength=len(self._starts))
            together._starts = self._starts + np.cumsum(counts)
        return together

    @property
    def _bits(self) -> int:
        return (len(self) // _STRETCH).bit_length()

    def _table(self) -> Places:
        """The start of the hashes with each value of the upper bits, and the end of the last hashes."""
        if self._starts is None:
            lowest = (np.arange(1, 1 << self._bits) << (32 - self._bits)) - (1 << 31)
            inner = np.searchsorted(self.values, lowest.astype(np.int32))
            self._starts = np.concatenate([[0], inner, [len(self)]]).astype(np.int64)
        return self._starts


def _prefixes(hashes: KeyHashes, bits: int) -> Places:
    """The upper bits of each hash, counted from the lowest hash, which is negative."""
    return ((hashes.view(np.uint32) ^ np.uint32(1 << 31)) >> np.uint32(32 - bits)).astype(np.int64)
