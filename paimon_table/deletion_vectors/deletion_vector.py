"""Deletion vectors: the deleted rows that one data file still contains.

Implements both forms of Paimon's vectors inside an index file: version 1 with a 32-bit and version 2 with a 64-bit
Roaring bitmap, each between its size and a checksum.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap, BitMap64

from paimon_table.errors import CorruptFile
from paimon_table.rows.words import Indices

Mask = npt.NDArray[np.bool_]

_MAGIC_V1 = struct.pack(">i", 1581511376)
_MAGIC_V2 = struct.pack("<i", 1681511377)
_SIZE = struct.Struct(">i")
_CHECKSUM = struct.Struct(">I")


@dataclass(frozen=True, slots=True, eq=False)
class DeletionVector:
    """Positions of deleted rows in file order, counted from 0, rising, each once."""

    positions: Indices

    @property
    def cardinality(self) -> int:
        """Number of deleted rows."""
        return len(self.positions)

    def keep(self, start: int, count: int) -> Mask | None:
        """For each of the ``count`` positions from ``start`` whether its row is live; None if all rows are."""
        first, last = np.searchsorted(self.positions, [start, start + count])
        if first == last:
            return None
        kept = np.ones(count, np.bool_)
        kept[self.positions[first:last] - start] = False
        return kept

    def contains(self, positions: Indices) -> Mask:
        """For each position, in any order, whether its row is deleted."""
        at = np.searchsorted(self.positions, positions)
        found: Mask = at < len(self.positions)
        found[found] = self.positions[at[found]] == positions[found]
        return found

    def with_deleted(self, positions: Indices) -> DeletionVector:
        """The vector with more deleted rows; positions in any order, which may be deleted already."""
        added = np.unique(positions[~self.contains(positions)])
        return DeletionVector(np.insert(self.positions, np.searchsorted(self.positions, added), added))


def without_deleted(rows: pa.Table, start: int, deleted: DeletionVector | None) -> pa.Table:
    """The live rows among those at position ``start`` of their file and after it."""
    kept = None if deleted is None else deleted.keep(start, rows.num_rows)
    return rows if kept is None else rows.filter(pa.array(kept))


NOTHING_DELETED = DeletionVector(np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True)
class EncodedVector:
    """The bytes of a vector, and its length in the index manifest, which is not the number of bytes."""

    data: bytes
    range_length: int


def encode_vector(vector: DeletionVector, bitmap64: bool) -> EncodedVector:
    """Version 2 if ``bitmap64``, else version 1, which has positions below 2^31."""
    # The bitmaps read arrays of the standard library without a loop over single values.
    if bitmap64:
        bitmap: BitMap | BitMap64 = BitMap64(array("Q", vector.positions.astype(np.uint64).tobytes()))
    else:
        bitmap = BitMap(array("I", vector.positions.astype(np.uint32).tobytes()))
    bitmap.run_optimize()
    body = (_MAGIC_V2 if bitmap64 else _MAGIC_V1) + bitmap.serialize()
    data = _SIZE.pack(len(body)) + body + _CHECKSUM.pack(zlib.crc32(body))
    return EncodedVector(data, len(data) if bitmap64 else len(body))


def decode_vector(data: bytes, offset: int, range_length: int, name: str) -> DeletionVector:
    """The vector at ``offset`` of an index file. Raises CorruptFile, which names the file ``name``.

    ``range_length`` is the length in the index manifest; the bytes state the version.
    """
    try:
        (size,) = _SIZE.unpack_from(data, offset)
        body = data[offset + _SIZE.size : offset + _SIZE.size + size]
        (checksum,) = _CHECKSUM.unpack_from(data, offset + _SIZE.size + size)
    except struct.error as error:
        raise _corrupt(name, offset, "it ends outside of the file") from error
    magic, bitmap = body[: len(_MAGIC_V1)], body[len(_MAGIC_V1) :]
    if magic not in {_MAGIC_V1, _MAGIC_V2}:
        raise _corrupt(name, offset, f"its magic number {magic.hex()} is unknown")
    expected = size if magic == _MAGIC_V1 else _SIZE.size + size + _CHECKSUM.size
    if range_length != expected:
        raise _corrupt(name, offset, f"its length is {expected}, but the index manifest states {range_length}")
    if zlib.crc32(body) != checksum:
        raise _corrupt(name, offset, "its checksum is wrong")
    try:
        # Both classes return their positions in rising order.
        positions = BitMap.deserialize(bitmap) if magic == _MAGIC_V1 else BitMap64.deserialize(bitmap)
    except (ValueError, IndexError) as error:
        raise _corrupt(name, offset, f"its bitmap is unreadable: {error}") from error
    return DeletionVector(np.asarray(positions.to_array()).astype(np.int64))


def _corrupt(name: str, offset: int, reason: str) -> CorruptFile:
    return CorruptFile(f"deletion vector at byte {offset} of {name}: {reason}; restore the file from a backup")
