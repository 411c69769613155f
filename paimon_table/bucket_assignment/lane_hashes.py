"""Finds the bucket of a key hash in a lane, from the index files of a snapshot.

If a lane has few buckets, they are searched one by one. If it has many, those without new keys are merged into one
local file. So a search does not become slower with every full bucket, and workers need not read them again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from paimon_table.bucket_assignment.key_places import UNKNOWN, place_of
from paimon_table.bucket_assignment.lanes import Lane
from paimon_table.bucket_assignment.merged_hashes import MergedHashes, merge, newest_merged
from paimon_table.bucket_assignment.owned_buckets import Buckets
from paimon_table.metadata.hash_index import KeyHashes
from paimon_table.metadata.table_context import TableContext
from paimon_table.rows.sorted_values import SortedValues

MOST_SINGLE = 4
"""At most this many buckets without new keys are searched one by one; more are merged first."""

Load = Callable[[int], SortedValues]
"""The hashes of a bucket."""


class LaneHashes:
    """The committed keys of one lane. Immutable, except that it reads content lazily."""

    def __init__(self, files: Mapping[int, str], load: Load, merged: MergedHashes | None = None) -> None:
        """``files``: the index file of each bucket of the lane; ``load`` reads one file."""
        self._load = load
        self._merged = merged
        self.merged_buckets = frozenset() if merged is None else frozenset(merged.covered(files))
        """The buckets whose index files need not be cached any longer."""
        self._single = sorted(files.keys() - self.merged_buckets)
        stale = [] if merged is None else merged.files.keys() - self.merged_buckets
        self._stale = np.asarray(sorted(stale), np.int16)

    def find(self, hashes: KeyHashes) -> Buckets:
        """The bucket of each of the sorted ``hashes``; ``UNKNOWN`` for one without a bucket.

        If files of other writers have a hash in several buckets, the lowest counts.
        """
        found = np.full(len(hashes), UNKNOWN, np.int16)
        if self._merged is not None:
            found = self._merged.find(hashes)
            if len(self._stale):
                found[np.isin(found, self._stale)] = UNKNOWN
        for bucket in self._single:
            sought = np.flatnonzero(found.view(np.uint16) > bucket)
            if len(sought):
                of_bucket = place_of(hashes[sought], self._load(bucket), np.full(1, bucket, np.int16))
                found[sought[of_bucket != UNKNOWN]] = bucket
        return found


def open_lane_hashes(
    directory: Path, files: Mapping[int, str], growing: Callable[[], frozenset[int]], load: Load
) -> LaneHashes:
    """The index of a lane whose merged file is in ``directory``; ``growing`` returns the buckets that get new keys."""
    if len(files) <= MOST_SINGLE:
        return LaneHashes(files, load)
    merged = newest_merged(directory, files)
    covered = [] if merged is None else merged.covered(files)
    settled = files.keys() - covered - growing()
    if len(settled) > MOST_SINGLE:
        merged = merge(directory, merged, covered, {bucket: (files[bucket], load(bucket).values) for bucket in settled})
    return LaneHashes(files, load, merged)


def lane_directory(ctx: TableContext, lane: Lane, assigners: int, lookup_dir: str) -> Path:
    """The directory of the merged file of a lane."""
    named = f"{ctx.paths.root}\n{lane.partition.hex()}\n{assigners}\n{lane.number}"
    return Path(lookup_dir, "key-hashes", hashlib.sha1(named.encode()).hexdigest())
