"""The buckets of one assigner in one partition, and how new keys fill them.

Implements Paimon's dynamic buckets: assigner ``number`` of ``assigners`` owns the buckets b with b % assigners equal to
its number. New keys go into the lowest of its buckets with fewer keys than ``dynamic-bucket.target-row-num``, then into
its lowest unused bucket. If ``dynamic-bucket.max-buckets`` allows no further bucket, they are spread over the existing
ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paimon_table.errors import ConfigError
from paimon_table.options.names import MAX_BUCKETS, TARGET_BUCKET_ROW_COUNT
from paimon_table.options.table_options import TableOptions

Buckets = npt.NDArray[np.int16]

MOST_BUCKETS = 32_767
"""The most buckets of a partition, numbered from 0. As in Paimon, a number fits in 16 bits."""

DEFAULT_ASSIGNERS = 4
"""The number of assigners if the options set none. It is not the number of tasks, because that changes, which would
move keys."""


def assigner_count(options: TableOptions) -> int:
    """The number of assigners of a partition without keys; each assigner may own a bucket."""
    wanted = options.dynamic_bucket_initial_buckets or options.dynamic_bucket_assigners or DEFAULT_ASSIGNERS
    return min(wanted, FillLimits.of(options).bucket_count)


@dataclass(frozen=True, slots=True)
class FillLimits:
    """The limits on filling buckets."""

    target_row_count: int
    """A bucket with this many keys gets new ones only if no other bucket can."""
    bucket_count: int = MOST_BUCKETS
    """The most buckets of a partition."""
    is_bounded: bool = False
    """Whether buckets grow past the target once all exist; otherwise that is an error."""

    @staticmethod
    def of(options: TableOptions) -> FillLimits:
        is_bounded = options.dynamic_bucket_max_buckets > 0
        most = min(options.dynamic_bucket_max_buckets, MOST_BUCKETS) if is_bounded else MOST_BUCKETS
        return FillLimits(options.dynamic_bucket_target_row_count, most, is_bounded)


class OwnedBuckets:
    """The buckets of one assigner while one batch fills them. Not thread safe."""

    def __init__(self, limits: FillLimits, assigners: int, number: int, key_counts: Mapping[int, int]) -> None:
        """``key_counts``: the keys in each existing bucket of the partition that this assigner owns."""
        self._limits = limits
        self._counts = dict(key_counts)
        self._roomy = sorted((b for b, n in self._counts.items() if n < limits.target_row_count), reverse=True)
        owned = range(number, limits.bucket_count, assigners)
        self._owned_count = len(owned)
        self._unused = (bucket for bucket in owned if bucket not in key_counts)

    @property
    def key_counts(self) -> Mapping[int, int]:
        """The keys in each bucket, new ones included."""
        return self._counts

    @property
    def growing(self) -> frozenset[int]:
        """The existing buckets that may get the next new key."""
        while self._roomy and self._counts[self._roomy[-1]] >= self._limits.target_row_count:
            self._roomy.pop()
        if self._roomy:
            return frozenset(self._roomy[-1:])
        is_exhausted = sum(bucket < self._limits.bucket_count for bucket in self._counts) == self._owned_count
        return frozenset(self._counts) if is_exhausted else frozenset()

    def fill(self, count: int) -> Buckets:
        """Buckets for this many new keys, in the order of the keys."""
        buckets = np.empty(count, np.int16)
        done = 0
        while done < count:
            bucket = self._bucket_with_room()
            if bucket is None:
                buckets[done:] = self._spread(count - done)
                break
            taken = min(count - done, self._limits.target_row_count - self._counts[bucket])
            buckets[done : done + taken] = bucket
            self._counts[bucket] += taken
            done += taken
        return buckets

    def _bucket_with_room(self) -> int | None:
        while self._roomy and self._counts[self._roomy[-1]] >= self._limits.target_row_count:
            self._roomy.pop()
        if not self._roomy:
            bucket = next(self._unused, None)
            if bucket is None:
                return None
            self._counts[bucket] = 0
            self._roomy.append(bucket)
        return self._roomy[-1]

    def _spread(self, count: int) -> Buckets:
        """Distributes keys that no bucket has room for, so that the buckets become equally full."""
        if not self._limits.is_bounded:
            raise ConfigError(
                f"a partition has no room for more keys: {len(self._counts)} buckets have "
                f"{self._limits.target_row_count} keys each; raise {TARGET_BUCKET_ROW_COUNT!r}, or set "
                f"{MAX_BUCKETS!r}, above which buckets grow",
                option=TARGET_BUCKET_ROW_COUNT,
            )
        emptiest_first = sorted(self._counts, key=lambda bucket: (self._counts[bucket], bucket))
        numbers = np.asarray(emptiest_first, np.int16)[np.arange(count) % len(emptiest_first)]
        for bucket, added in zip(*np.unique(numbers, return_counts=True), strict=True):
            self._counts[int(bucket)] += int(added)
        return numbers
