"""The new buckets of a partition's rows when its buckets change: a fixed number, or dynamic ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.bucket_assignment.dynamic_lanes import assigner_numbers
from paimon_table.bucket_assignment.key_places import place_of
from paimon_table.bucket_assignment.owned_buckets import FillLimits, OwnedBuckets, assigner_count
from paimon_table.metadata.bucket_id import DYNAMIC
from paimon_table.metadata.hash_index import KeyHashes, distinct, write_hashes
from paimon_table.metadata.index_file import IndexFileMeta
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.table_options import TableOptions
from paimon_table.rows.sorted_values import SortedValues
from paimon_table.schema.key_numbers import bucket_numbers, key_hashes
from paimon_table.schema.table_schema import TableSchema

MOST_OPEN = 16
"""The number of runs to read, and of buckets to write, at the same time: each needs memory for about a row group."""

Pass = tuple[list[int], list[int]]
"""Old buckets with files, and the new buckets that get their rows in one pass."""


class Placement(Protocol):
    """The new buckets of one partition."""

    @property
    def total_buckets(self) -> int:
        """The number of buckets for the manifest entries of the new files."""
        ...

    def passes(self, old: Sequence[int], present_count: int) -> Iterator[Pass]:
        """The passes that move all rows of the ``old`` buckets; the partition has ``present_count`` buckets."""
        ...

    def numbers(self, rows: pa.Table) -> npt.NDArray[np.integer]:
        """The bucket of each row."""
        ...

    def write_index(self, ctx: TableContext, uuid: str) -> Iterator[tuple[int, IndexFileMeta]]:
        """Write the index files of the buckets; ``uuid`` must be unique."""
        ...


@dataclass(frozen=True, slots=True)
class FixedPlacement:
    """The hash of a row determines its bucket."""

    schema: TableSchema
    function: str
    total_buckets: int

    def passes(self, old: Sequence[int], present_count: int) -> Iterator[Pass]:
        """Buckets whose numbers differ modulo the common divisor of both counts share no keys.

        All bucket functions take a remainder of a hash, which is then the same modulo each divisor.
        """
        yield from fixed_passes(old, present_count, self.total_buckets)

    def numbers(self, rows: pa.Table) -> npt.NDArray[np.integer]:
        """See ``Placement``."""
        return bucket_numbers(self.schema, rows, self.total_buckets, self.function)

    def write_index(self, ctx: TableContext, uuid: str) -> Iterator[tuple[int, IndexFileMeta]]:
        """None: the bucket follows from the row."""
        return iter(())


class DynamicPlacement:
    """Every key hash has a bucket, as if one batch had written all keys to an empty partition."""

    def __init__(self, schema: TableSchema, options: TableOptions, hashes: Iterable[KeyHashes]) -> None:
        """``hashes``: the hashes of all keys, in parts."""
        self._schema = schema
        self._assigners = assigner_count(options)
        self._hashes = SortedValues(distinct(np.concatenate([np.empty(0, np.int32), *hashes])))
        self._buckets = np.empty(len(self._hashes), np.int16)
        owners = assigner_numbers(self._hashes.values, self._assigners)
        for number in range(self._assigners):
            owned = owners == number
            count = int(np.count_nonzero(owned))
            if count:
                self._buckets[owned] = OwnedBuckets(FillLimits.of(options), self._assigners, number, {}).fill(count)

    @property
    def total_buckets(self) -> int:
        return DYNAMIC

    def passes(self, old: Sequence[int], present_count: int) -> Iterator[Pass]:
        """See ``Placement``; rows of any bucket may go into any other."""
        new = self._used() if old else []
        for first in range(0, len(new), MOST_OPEN):
            yield list(old), new[first : first + MOST_OPEN]

    def numbers(self, rows: pa.Table) -> npt.NDArray[np.integer]:
        """See ``Placement``."""
        return place_of(key_hashes(self._schema, rows), self._hashes, self._buckets)

    def write_index(self, ctx: TableContext, uuid: str) -> Iterator[tuple[int, IndexFileMeta]]:
        """See ``Placement``: the hashes of each bucket."""
        for bucket in self._used():
            hashes = self._hashes.values[self._buckets == bucket]
            yield bucket, write_hashes(ctx.io, ctx.paths, f"{uuid}-{bucket}", self._assigners, hashes)

    def _used(self) -> list[int]:
        return [int(bucket) for bucket in np.flatnonzero(np.bincount(self._buckets))]


def fixed_passes(old: Sequence[int], present_count: int, count: int) -> Iterator[Pass]:
    """The passes that move rows of ``old`` buckets into ``count`` buckets; dynamic ones may have any key."""
    common = gcd(present_count, count) if present_count > 0 else 1
    for remainder in range(common):
        there = [number for number in old if number % common == remainder]
        new = list(range(remainder, count, common))
        for first in range(0, len(new) if there else 0, MOST_OPEN):
            yield there, new[first : first + MOST_OPEN]


def dynamic_pass_count(options: TableOptions, row_count: int) -> int:
    """The estimated number of passes to move the rows of this many keys into dynamic buckets."""
    limits, assigners = FillLimits.of(options), assigner_count(options)
    each = -(-row_count // (assigners * limits.target_row_count))
    return -(-min(assigners * each, limits.bucket_count) // MOST_OPEN)
