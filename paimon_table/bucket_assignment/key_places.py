"""Looking up many sorted hashes at once."""

from __future__ import annotations

import numpy as np

from paimon_table.bucket_assignment.owned_buckets import Buckets
from paimon_table.metadata.hash_index import KeyHashes

UNKNOWN = -1
"""Stands for the bucket of a hash that is in none."""


def place_of(hashes: KeyHashes, held: KeyHashes, buckets: Buckets) -> Buckets:
    """For each of the ``hashes`` its bucket among the sorted ``held`` ones; a single bucket stands for all of them."""
    if len(held) == 0:
        return np.full(len(hashes), UNKNOWN, np.int16)
    places = np.minimum(np.searchsorted(held, hashes), len(held) - 1)
    found = buckets if len(buckets) == 1 else buckets[places]
    return np.where(held[places] == hashes, found, np.int16(UNKNOWN))
