"""Looking up many sorted hashes at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from paimon_table.bucket_assignment.owned_buckets import Buckets
from paimon_table.metadata.hash_index import KeyHashes

UNKNOWN = -1
"""Stands for the bucket of a hash that is in none."""

_STRETCH = 256
"""Of so many held hashes one is in the sample: that of 25 million stays in a processor's cache, they do not."""


def sample_of(held: KeyHashes) -> KeyHashes:
    """Some of the sorted hashes, at equal distances: where a search begins."""
    return held[::_STRETCH].copy()


def place_of(hashes: KeyHashes, held: KeyHashes, buckets: Buckets, sample: KeyHashes | None = None) -> Buckets:
    """For each of the ``hashes`` its bucket among the sorted ``held`` ones; a single bucket stands for all of them.

    Of a hash that is held more than once the first bucket counts. ``sample`` is worth its while with millions held.
    """
    if len(held) == 0:
        return np.full(len(hashes), UNKNOWN, np.int16)
    first = np.searchsorted(held, hashes) if sample is None else _first_not_below(hashes, held, sample)
    places = np.minimum(first, len(held) - 1)
    found = buckets if len(buckets) == 1 else buckets[places]
    return np.where(held[places] == hashes, found, np.int16(UNKNOWN))


def _first_not_below(hashes: KeyHashes, held: KeyHashes, sample: KeyHashes) -> npt.NDArray[np.int64]:
    """What ``searchsorted`` gives, with few jumps into ``held``: the stretch of each hash, then halves of that."""
    below = np.maximum(np.searchsorted(sample, hashes) - 1, 0) * _STRETCH
    step = _STRETCH // 2
    while step:
        probe = np.minimum(below + step, len(held) - 1)
        below = np.where(held[probe] < hashes, probe, below)
        step //= 2
    return np.asarray(below + (held[below] < hashes), np.int64)
