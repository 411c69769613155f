"""Which write task owns a lane: a slot number, and the integer that makes Spark's hash partitioner pick that slot.

Spark's ``repartition(n, column)`` sends a row to ``pmod(Murmur3(column, seed 42), n)``. Hashing a few bucket numbers
spreads them badly: both of two buckets often go to one task. So the column has, for each slot, the smallest integer
that Spark sends there.
"""

from __future__ import annotations

import zlib
from functools import lru_cache

from paimon_table import Lane

_MASK = 0xFFFFFFFF
_SEED = 42


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & _MASK


def spark_hash_int(value: int) -> int:
    """Spark SQL's Murmur3 hash of one INT, as a signed 32-bit integer."""
    k = (value & _MASK) * 0xCC9E2D51 & _MASK
    k = _rotate(k, 15) * 0x1B873593 & _MASK
    h = _rotate(_SEED ^ k, 13) * 5 + 0xE6546B64 & _MASK
    h ^= 4
    h = (h ^ (h >> 16)) * 0x85EBCA6B & _MASK
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


@lru_cache(maxsize=16)
def slot_keys(slots: int) -> tuple[int, ...]:
    """For each of ``slots`` slots the integer that Spark's partitioner sends there."""
    keys: dict[int, int] = {}
    candidate = 0
    while len(keys) < slots:
        keys.setdefault(spark_hash_int(candidate) % slots, candidate)
        candidate += 1
    return tuple(keys[slot] for slot in range(slots))


def slot_of(target: int, lane: Lane, slots: int) -> int:
    """The slot that owns a lane: lanes of one partition go round robin, tables and partitions are shifted."""
    return (zlib.crc32(lane.partition) + target + lane.number) % slots
