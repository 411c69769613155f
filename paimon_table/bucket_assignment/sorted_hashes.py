"""Sorted hashes in which many others are looked for at once.

Hashes of keys lie evenly in their range, so the upper bits of one say where it must be, give or take some dozens. A
table has the start of each value of these bits; from there few steps find the place. Where hashes do not lie evenly,
there are more steps, as many as halving takes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from paimon_table.metadata.hash_index import KeyHashes

_STRETCH = 64
"""Hashes between two starts, on average and at most: a few lines of a processor's cache."""

_FEWEST = 4096
"""Fewer hashes stay in a processor's cache as they are."""

Places = npt.NDArray[np.int64]


class SortedHashes:
    """Hashes in their order, any of them any number of times. Immutable, but for the table, made when first needed."""

    __slots__ = ("_starts", "values")

    def __init__(self, values: KeyHashes, starts: Places | None = None) -> None:
        """``starts``: what the table of exactly these values is."""
        self.values = values
        self._starts = starts

    def __len__(self) -> int:
        return len(self.values)

    def first_not_below(self, asked: KeyHashes) -> Places:
        """What ``searchsorted`` gives. ``asked`` may have any order; in their order they are found faster."""
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
        """These and the sorted ``added`` ones; the table is kept, so that it is not rebuilt for every few new keys."""
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
        """Where the hashes with each value of the upper bits start, and where the last hashes end."""
        if self._starts is None:
            lowest = (np.arange(1, 1 << self._bits) << (32 - self._bits)) - (1 << 31)
            inner = np.searchsorted(self.values, lowest.astype(np.int32))
            self._starts = np.concatenate([[0], inner, [len(self)]]).astype(np.int64)
        return self._starts


def _prefixes(hashes: KeyHashes, bits: int) -> Places:
    """The upper bits of each hash, counted from the lowest hash, which is negative."""
    return ((hashes.view(np.uint32) ^ np.uint32(1 << 31)) >> np.uint32(32 - bits)).astype(np.int64)
