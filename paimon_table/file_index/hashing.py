"""The 64-bit hashes of values in Paimon's bloom filters.

Implements ``FastHash``: texts and bytes by xxHash64 with seed 0, everything else as a long by Thomas Wang's function.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from paimon_table.types import BINARIES, CHARACTERS, TIMESTAMPS, DataType, Root

Hashes = npt.NDArray[np.int64]


def hash64(values: pa.Array, t: DataType) -> Hashes:
    """The hash of each value, in the Arrow type of ``t`` and without NULLs."""
    if t.root in CHARACTERS | BINARIES:
        pieces = values.cast(pa.binary()).to_pylist()
        return np.fromiter(map(xxhash.xxh64_intdigest, pieces), np.uint64, len(pieces)).view(np.int64)
    return _wang(_longs(values, t))


def _longs(values: pa.Array, t: DataType) -> Hashes:
    match t.root:
        case Root.FLOAT:
            floats: npt.NDArray[np.float32] = values.to_numpy(zero_copy_only=False)
            return floats.view(np.int32).astype(np.int64)
        case Root.DOUBLE:
            doubles: npt.NDArray[np.float64] = values.to_numpy(zero_copy_only=False)
            return doubles.view(np.int64)
        case Root.DATE | Root.TIME:
            values = values.cast(pa.int32())
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            values = values.cast(pa.int64())
    longs: Hashes = values.to_numpy(zero_copy_only=False).astype(np.int64)
    nanoseconds = t.root in TIMESTAMPS and (t.precision or 0) > 6
    return longs // 1000 if nanoseconds else longs


def _wang(key: Hashes) -> Hashes:
    """Right shifts keep the sign, sums wrap around."""
    key = ~key + (key << 21)
    key = key ^ (key >> 24)
    key = key + (key << 3) + (key << 8)
    key = key ^ (key >> 14)
    key = key + (key << 2) + (key << 4)
    key = key ^ (key >> 28)
    return key + (key << 31)
