"""Sorted numbers with a fast search for many others at once.

A binary search in a large array waits for memory at almost every step. So the upper steps use a sample of the numbers,
which fits into a processor's cache. The last few steps stay within one stretch of neighbours, a few lines of the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_STRETCH = 64
"""The sample has the last number of each stretch. A power of two."""

_FEWEST = 4096
"""Fewer numbers fit into a processor's cache, so they need no sample."""

Numbers = npt.NDArray[Any]
Places = npt.NDArray[np.int64]


class SortedValues:
    """Sorted integers of one type, which may repeat. Immutable, except for the sample, which is made at first use."""

    __slots__ = ("_sample", "values")

    def __init__(self, values: Numbers) -> None:
        self.values = values
        self._sample: Numbers | None = None

    def __len__(self) -> int:
        return len(self.values)

    def first_not_below(self, asked: Numbers) -> Places:
        """The result of ``searchsorted``; ``asked`` has the type of the values, and is searched faster if sorted."""
        if len(self) < _FEWEST or len(asked) == 0:
            return np.asarray(np.searchsorted(self.values, asked), np.int64)
        if self._sample is None:
            self._sample = self.values[_STRETCH - 1 :: _STRETCH].copy()
        places = np.searchsorted(self._sample, asked).astype(np.int64) * _STRETCH
        step = _STRETCH >> 1
        while step:
            below = self.values.take(places + (step - 1), mode="clip") < asked
            places += below * np.int64(step)
            step >>= 1
        return np.minimum(places, len(self))

    def with_added(self, added: Numbers) -> SortedValues:
        """Merged with the sorted ``added`` values."""
        return SortedValues(np.insert(self.values, self.first_not_below(added), added))
