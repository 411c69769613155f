"""Looking up the buckets of many hashes at once."""

from __future__ import annotations

import numpy as np

from paimon_table.bucket_assignment.owned_buckets import Buckets
from paimon_table.metadata.hash_index import KeyHashes
from paimon_table.rows.sorted_values import SortedValues

UNKNOWN = -1
"""The bucket number of a hash without a bucket."""


def place_of(hashes: KeyHashes, held: SortedValues, buckets: Buckets) -> Buckets:
    """For each of the ``hashes`` its bucket among the ``held`` hashes; a single bucket applies to all of them.

    If a hash is held more than once, its first bucket counts.
    """
    if len(held) == 0:
        return np.full(len(hashes), UNKNOWN, np.int16)
    places = held.first_not_below(hashes)
    is_held = held.values.take(places, mode="clip") == hashes
    found = buckets if len(buckets) == 1 else buckets.take(places, mode="clip")
    return np.where(is_held, found, np.int16(UNKNOWN))
