"""Lanes of dynamic buckets: a partition and an assigner, which owns the key hashes and the buckets with its number.

The options set the number of assigners. In a partition with keys, the index files limit it: every hash of a bucket must
belong to the assigner that owns the bucket. A common divisor of the numbers in the files satisfies this. If files do
not state the number, because another writer wrote them, there is one assigner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import gcd

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.bucket_assignment.lanes import Lane, partitions_of
from paimon_table.metadata.hash_index import assigners_of
from paimon_table.metadata.table_state import LiveFiles
from paimon_table.rows.groups import groups_of
from paimon_table.rows.hashes import Hashes
from paimon_table.schema.key_numbers import key_hashes
from paimon_table.schema.table_schema import TableSchema


def fewer_assigners(live: LiveFiles, assigners: int) -> dict[bytes, int]:
    """The partitions that have fewer than ``assigners``, and how many."""
    # Without an index file a bucket may hold keys of any hash: only a single assigner owns them all.
    found = {bucket.partition: 1 for bucket in live.files.keys() - live.hash_files.keys() if bucket.bucket >= 0}
    for bucket, file in live.hash_files.items():
        written_by = assigners_of(file) or 1
        # The hashes of a bucket are equal modulo ``written_by``, so they are equal modulo each of its divisors, but not
        # certainly modulo another number. The greatest common divisor is the largest number of assigners for all
        # buckets of the partition.
        if written_by % assigners:
            found[bucket.partition] = gcd(found.get(bucket.partition, assigners), written_by)
    return found


@dataclass(frozen=True, slots=True)
class DynamicLanes:
    """One lane for each assigner of a partition."""

    schema: TableSchema
    assigners: int
    fewer: Mapping[bytes, int] = field(default_factory=dict)
    """Partitions with another number of assigners."""

    def split(self, rows: pa.Table) -> Iterator[tuple[Lane, pa.Table]]:
        """See ``LaneSplit``."""
        if rows.num_rows == 0:
            return
        hashes = key_hashes(self.schema, rows)
        for partition, members in partitions_of(rows, self.schema):
            count = self.assigners_in(partition)
            numbers = assigner_numbers(hashes if members is None else hashes[members], count)
            for number, indices in groups_of(numbers):
                chosen = indices if members is None else members[indices]
                yield Lane(partition, number), rows.take(pa.array(chosen))

    def assigners_in(self, partition: bytes) -> int:
        return self.fewer.get(partition, self.assigners)


def assigner_numbers(hashes: Hashes, assigners: int) -> npt.NDArray[np.uint32]:
    """|h % assigners| of every hash, with Java's remainder."""
    # The lowest int has no positive counterpart: np.abs leaves it negative, and its bits read as unsigned are 2^31.
    magnitude, count = np.abs(hashes).view(np.uint32), np.uint32(assigners)
    return magnitude - magnitude // count * count
