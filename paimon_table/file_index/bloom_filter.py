"""Paimon's bloom filter of one column of one file.

Implements the body of a ``bloom-filter`` index: the number of hash functions as a big-endian int, then the bits. Bit i
is bit i % 8 of byte i / 8. Filters contain no NULLs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paimon_table.file_index.hashing import Hashes
from paimon_table.file_index.index_limits import bits_for

_HEAD_BYTES = 4


class BloomFilterBuilder:
    """Collects the hashes of a column; needs only the memory of the filter."""

    def __init__(self, items: int, fpp: float) -> None:
        """With ``items`` values, false positives have the probability ``fpp``."""
        bits = bits_for(items, fpp)
        self._packed = np.zeros(bits // 8, np.uint8)
        self._functions = max(1, math.floor(bits / items * math.log(2) + 0.5))

    def add(self, hashes: Hashes) -> None:
        for positions in _positions(hashes, self._functions, len(self._packed) * 8):
            np.bitwise_or.at(self._packed, positions >> 3, np.uint8(1) << (positions & 7).astype(np.uint8))

    def to_bytes(self) -> bytes:
        head = self._functions.to_bytes(_HEAD_BYTES, "big")
        return head + self._packed.tobytes()


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """A stored filter."""

    body: bytes

    def may_contain(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """For each hash, whether the file may have a value with it; False is certain."""
        functions = int.from_bytes(self.body[:_HEAD_BYTES], "big")
        data = np.frombuffer(self.body, np.uint8, offset=_HEAD_BYTES)
        found = np.ones(len(hashes), np.bool_)
        for positions in _positions(hashes, functions, len(data) * 8):
            found &= (data[positions >> 3] >> (positions & 7).astype(np.uint8)) & 1 != 0
        return found


def _positions(hashes: Hashes, functions: int, bits: int) -> list[npt.NDArray[np.int64]]:
    """For each hash function, the bit of every hash."""
    low, high = hashes.astype(np.int32), (hashes >> 32).astype(np.int32)
    positions = []
    for number in range(1, functions + 1):
        combined = low + np.int32(number) * high
        positions.append(np.where(combined < 0, ~combined, combined).astype(np.int64) % bits)
    return positions
