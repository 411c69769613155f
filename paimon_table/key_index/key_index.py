"""The place of the row of each key of a lane, as of one snapshot. The index is a value; its entries are in local files.

The index is the same for every engine and never authoritative. It is built from the table and follows its snapshots. If
it is lost, damaged or too old, it is rebuilt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from paimon_table.key_index.index_runs import IndexRuns, Run, Slots, runs_to_merge
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.snapshot import SnapshotIdentity

_MOST_OUTDATED = 1 << 20
"""The number of outdated entries, in addition to one per key, above which the index is rebuilt."""


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """The index of one lane. ``runs`` are sorted, newest first."""

    at: SnapshotIdentity
    """The snapshot that the index describes."""
    buckets: tuple[BucketId, ...]
    """The bucket of each slot."""
    key_counts: tuple[int, ...]
    """The number of keys in each slot."""
    runs: tuple[Run, ...]

    @property
    def key_count(self) -> int:
        return sum(self.key_counts)

    @property
    def is_bloated(self) -> bool:
        """Whether most entries of the runs are outdated."""
        return sum(run.row_count for run in self.runs) > 2 * self.key_count + _MOST_OUTDATED

    def counts_in(self, partition: bytes) -> dict[int, int]:
        """Keys per bucket of a partition."""
        pairs = zip(self.buckets, self.key_counts, strict=True)
        return {bucket.bucket: count for bucket, count in pairs if bucket.partition == partition}

    def moved_to(self, at: SnapshotIdentity) -> KeyIndex:
        """The same entries for another snapshot."""
        return replace(self, at=at)

    def with_buckets(self, buckets: Sequence[BucketId]) -> tuple[KeyIndex, Slots]:
        """The index with slots for these buckets, and their numbers."""
        known = {bucket: slot for slot, bucket in enumerate(self.buckets)}
        numbers = [known.setdefault(bucket, len(known)) for bucket in buckets]
        added = len(known) - len(self.buckets)
        grown = replace(self, buckets=tuple(known), key_counts=self.key_counts + (0,) * added) if added else self
        return grown, np.asarray(numbers, np.int32)

    def with_entries(self, runs: IndexRuns, name: str, keys: pa.Table, slots: Slots) -> KeyIndex:
        """The index after these keys got these slots (-1: their rows were removed); ``keys`` are sorted, each once.

        Writes a run, and merges runs if there are too many; files stay until ``IndexRuns.keep``.
        """
        before = runs.find(self.runs, keys)
        changed = np.flatnonzero(before != slots)
        if len(changed) == 0:
            return self
        counts = np.asarray(self.key_counts, np.int64)
        for numbers, sign in ((before[changed], -1), (slots[changed], 1)):
            counts += sign * np.bincount(numbers[numbers >= 0], minlength=len(counts))
        written = runs.write(f"{name}-0", keys.take(pa.array(changed)), slots[changed])
        kept = (written, *self.runs)
        taken = runs_to_merge([run.row_count for run in kept])
        if taken:
            kept = (runs.merged(f"{name}-1", kept[:taken]), *kept[taken:])
        return replace(self, key_counts=tuple(counts.tolist()), runs=kept)
