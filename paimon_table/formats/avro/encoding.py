"""Encodes columns as the bytes of Avro rows, by vector operations.

Implements the binary encoding of the Avro specification for the schemas of ``avro_schema``. Whole numbers are zigzag
varints. Texts and bytes have a length prefix, and unions with null begin with the number of the branch. Arrays and maps
are one block of items and an empty block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.errors import BrokenInvariant
from paimon_table.formats.avro.schema import entry_types
from paimon_table.types import DataType, Root

Bytes = npt.NDArray[np.uint8]
Counts = npt.NDArray[np.int64]

_SECOND_BRANCH = 2
"""The number 1 as a varint."""

_VARINT_BYTES = 10
_DECIMAL_BYTES = 16


@dataclass(frozen=True, slots=True)
class Ragged:
    """Pieces of different length, one after the other."""

    data: Bytes
    lengths: Counts

    def spread(self, present: npt.NDArray[np.bool_]) -> Ragged:
        """The pieces at the places marked ``present``, with empty pieces at the others."""
        lengths = np.zeros(len(present), np.int64)
        lengths[present] = self.lengths
        return Ragged(self.data, lengths)

    def grouped(self, counts: Counts) -> Ragged:
        """Joins ``counts[i]`` pieces each to piece i."""
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.lengths)])
        return Ragged(self.data, np.diff(ends[np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])]))


def encode(values: pa.Array, t: DataType, path: str) -> Ragged:
    """One piece per value; pieces of nullable types begin with the branch of the union. Errors name the path."""
    if not t.nullable:
        if values.null_count:
            raise BrokenInvariant(f"{values.null_count} NULLs in {path}, whose type is {t}; they have no form in Avro")
        return _encode_valid(values, t, path)
    valid = np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    branch = _fixed(np.where(valid, _SECOND_BRANCH, 0).astype(np.uint8), 1)
    present = values.drop_null() if values.null_count else values
    return _joined([branch, _encode_valid(present, t, path).spread(valid)])


def _encode_valid(values: pa.Array, t: DataType, path: str) -> Ragged:
    match t.root, t.element:
        case ((Root.TINYINT | Root.SMALLINT | Root.INT | Root.BIGINT), _):
            return _varints(values.to_numpy(zero_copy_only=False).astype(np.int64))
        case ((Root.DATE | Root.TIME), _):
            return _varints(values.cast(pa.int32()).to_numpy(zero_copy_only=False).astype(np.int64))
        case ((Root.TIMESTAMP | Root.TIMESTAMP_LTZ), _):
            return _varints(values.cast(pa.int64()).to_numpy(zero_copy_only=False))
        case Root.BOOLEAN, _:
            return _fixed(values.to_numpy(zero_copy_only=False).astype(np.uint8), 1)
        case Root.FLOAT, _:
            return _fixed(values.to_numpy(zero_copy_only=False).astype("<f4"), 4)
        case Root.DOUBLE, _:
            return _fixed(values.to_numpy(zero_copy_only=False).astype("<f8"), 8)
        case Root.DECIMAL, _:
            return _with_length(_decimals(values))
        case Root.ARRAY, DataType() as element:
            return _blocks(values, [(values.values, element, f"{path}.element")])
        case ((Root.MULTISET | Root.MAP), _):
            key, value = entry_types(t)
            return _blocks(values, [(values.keys, key, f"{path}.key"), (values.items, value, f"{path}.value")])
        case Root.ROW, _:
            parts = [encode(values.field(i), f.type, f"{path}.{f.name}") for i, f in enumerate(t.fields)]
            return _joined(parts, len(values))
        case _:
            return _with_length(_texts(values))


# ---------------------------------------------------------------- parts


def _joined(parts: Sequence[Ragged], count: int = 0) -> Ragged:
    """The i-th pieces of all parts as one piece; ``count`` empty pieces without parts."""
    lengths = np.sum([part.lengths for part in parts], axis=0) if parts else np.zeros(count, np.int64)
    out = np.empty(int(lengths.sum()), np.uint8)
    starts = np.cumsum(lengths) - lengths
    for part in parts:
        # Byte j of a piece moves to start + j. The pieces of a part have no gaps between them.
        shift = starts - (np.cumsum(part.lengths) - part.lengths)
        out[np.repeat(shift, part.lengths) + np.arange(len(part.data))] = part.data
        starts = starts + part.lengths
    return Ragged(out, lengths)


def _fixed(values: npt.NDArray[np.generic], width: int) -> Ragged:
    return Ragged(np.ascontiguousarray(values).view(np.uint8), np.full(len(values), width, np.int64))


def _varints(values: Counts) -> Ragged:
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    lengths = np.ones(len(values), np.int64)
    for position in range(1, _VARINT_BYTES):
        lengths += zigzag >= np.uint64(1 << (7 * position))
    width = int(lengths.max(initial=1))
    places = np.arange(width)
    septets = (zigzag[:, None] >> (places * 7).astype(np.uint64)).astype(np.uint8) & np.uint8(0x7F)
    septets[places < lengths[:, None] - 1] |= np.uint8(0x80)
    return Ragged(septets[places < lengths[:, None]], lengths)


def _with_length(pieces: Ragged) -> Ragged:
    return _joined([_varints(pieces.lengths), pieces])


def _texts(values: pa.Array) -> Ragged:
    _, offsets_buffer, data = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    if len(values) == 0 or data is None:
        return Ragged(np.zeros(0, np.uint8), np.zeros(len(values), np.int64))
    return Ragged(np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]], np.diff(offsets))


def _decimals(values: pa.Array) -> Ragged:
    """Unscaled values, the highest byte first, in the fewest bytes that fit the value and its sign."""
    if len(values) == 0:
        return Ragged(np.zeros(0, np.uint8), np.zeros(0, np.int64))
    start = values.offset * _DECIMAL_BYTES
    raw = np.frombuffer(values.buffers()[1], np.uint8)[start : start + len(values) * _DECIMAL_BYTES]
    halves = raw.view("<i8").reshape(-1, 2)
    sign = halves[:, 1] >> 63
    low, high = (halves[:, 0] ^ sign).view(np.uint64), (halves[:, 1] ^ sign).view(np.uint64)
    lengths = np.ones(len(values), np.int64)
    for position in range(1, 9):
        lengths += (high > 0) | (low >= np.uint64(1 << (8 * position - 1)))
    for position in range(1, 8):
        lengths += high >= np.uint64(1 << (8 * position - 1))
    highest_first = raw.reshape(-1, _DECIMAL_BYTES)[:, ::-1]
    return Ragged(highest_first[np.arange(_DECIMAL_BYTES) >= _DECIMAL_BYTES - lengths[:, None]], lengths)


def _blocks(values: pa.Array, children: Sequence[tuple[pa.Array, DataType, str]]) -> Ragged:
    """Lists of the children, which are parallel arrays: one block of all items, if there are any, then the end."""
    offsets = values.offsets.to_numpy().astype(np.int64)
    counts = np.diff(offsets)
    first, total = (int(offsets[0]), int(offsets[-1] - offsets[0])) if len(offsets) else (0, 0)
    items = _joined([encode(child.slice(first, total), t, path) for child, t, path in children])
    head = _varints(counts[counts > 0]).spread(counts > 0)
    return _joined([head, items.grouped(counts), _fixed(np.zeros(len(values), np.uint8), 1)])
