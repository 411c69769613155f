"""Hash of Paimon's bucket function ``hive``: Hive's hash of each column, combined with factor 31."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.errors import ConfigError
from paimon_table.rows.binary_row import serialize_rows
from paimon_table.rows.chunks import one_array
from paimon_table.types import BINARIES, CHARACTERS, INTEGERS, TIMESTAMPS, DataType, Root, arrow_type

Hashes = npt.NDArray[np.uint32]

_SMALL = frozenset(INTEGERS) - {Root.BIGINT} | {Root.DATE, Root.TIME, Root.BOOLEAN}


def hive_hash(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]) -> Hashes:
    """Hash of each row over all columns, as unsigned 32 bits; NULL counts as 0.

    Raises ConfigError for timestamps that are not NULL, which have no Hive hash in Paimon.
    """
    state = np.zeros(len(columns[0]), np.uint32)
    for column, t in zip(columns, types, strict=True):
        array = one_array(column)
        hashes = _column_hash(array.cast(arrow_type(t)), t)
        if array.null_count:
            hashes = np.where(array.is_valid().to_numpy(zero_copy_only=False), hashes, np.uint32(0))
        state = state * np.uint32(31) + hashes
    return state


def _column_hash(array: pa.Array, t: DataType) -> Hashes:
    if t.root in CHARACTERS or t.root in BINARIES:
        return _polynomial(array)
    if t.root is Root.DECIMAL:
        return np.array([_decimal_hash(value) for value in array.to_pylist()], np.uint32)
    if t.root in TIMESTAMPS:
        if array.null_count < len(array):
            raise ConfigError(f"bucket-function.type hive has no hash for a bucket key of type {t}; use default")
        return np.zeros(len(array), np.uint32)
    slots = serialize_rows([array], [t]).data.view(np.uint64)[1::2]
    if t.root in _SMALL:
        return _sign_extended(slots, t)
    if t.root is Root.FLOAT:
        bits = slots.astype(np.uint32)
        return np.where(bits == 0x8000_0000, np.uint32(0), np.where(np.isnan(bits.view(np.float32)), 0x7FC0_0000, bits))
    if t.root is Root.DOUBLE:
        slots = np.where(slots == 1 << 63, np.uint64(0), slots)
        slots = np.where(np.isnan(slots.view(np.float64)), np.uint64(0x7FF8 << 48), slots)
    return (slots ^ (slots >> np.uint64(32))).astype(np.uint32)


def _sign_extended(slots: npt.NDArray[np.uint64], t: DataType) -> Hashes:
    if t.root is Root.TINYINT:
        return slots.astype(np.int8).astype(np.int32).view(np.uint32)
    if t.root is Root.SMALLINT:
        return slots.astype(np.int16).astype(np.int32).view(np.uint32)
    return slots.astype(np.uint32)


def _polynomial(array: pa.Array) -> Hashes:
    """h = 31 * h + signed byte over the bytes of each value."""
    values = array.cast(pa.large_binary())
    bounds = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(values.buffers()[2] or b"", np.int8)
    lengths = np.diff(bounds)
    state = np.zeros(len(values), np.uint32)
    rows = np.arange(len(values))
    for position in range(int(lengths.max(initial=0))):
        rows = rows[lengths[rows] > position]
        state[rows] = state[rows] * np.uint32(31) + data[bounds[rows] + position].astype(np.uint32)
    return state


def _decimal_hash(value: Decimal | None) -> int:
    """java.math.BigDecimal.hashCode after Hive's normalisation, which strips trailing zeros after the point."""
    if value is None or not value:
        return 0
    sign, digits, exponent = value.as_tuple()
    unscaled, scale = int("".join(map(str, digits))), -int(exponent)
    while scale > 0 and unscaled % 10 == 0:
        unscaled, scale = unscaled // 10, scale - 1
    hashed = 0
    for shift in range((unscaled.bit_length() - 1) // 32 * 32, -1, -32):
        hashed = 31 * hashed + (unscaled >> shift & 0xFFFF_FFFF)
    return ((-hashed if sign else hashed) * 31 + scale) & 0xFFFF_FFFF
