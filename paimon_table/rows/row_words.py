"""Arrow columns as the 8-byte words of Paimon BinaryRows, computed for many rows at once.

Implements the byte layout of BinaryRow: header with null bits, one 8-byte slot per field, then the variable part padded
to words. Hashing and serializing both use these words, so a hash needs no row bytes. Words that are equal in all rows
of a block are plain ints, all others are uint64 arrays with one element per row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.errors import BrokenInvariant, UnsupportedFeature
from paimon_table.types import BINARIES, CHARACTERS, TIMESTAMPS, DataType, Root, arrow_type

Words = npt.NDArray[np.uint64]
Lengths = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Word = int | Words
Length = int | Lengths

BLOCK_ROWS = 1 << 14
"""Rows encoded at a time; small enough for all intermediate arrays to stay in the CPU's cache."""

LONGEST_INLINE = 7
"""The bytes of the longest string that fits into its slot."""

_NANOS_PER_MILLI = 1_000_000
_WORD_MASKS = np.array([(1 << (8 * kept)) - 1 for kept in range(8)] + [2**64 - 1], np.uint64)
_NARROW: dict[Root, type[np.generic]] = {
    Root.TINYINT: np.uint8,
    Root.SMALLINT: np.uint16,
    Root.INT: np.uint32,
    Root.BIGINT: np.uint64,
    Root.FLOAT: np.uint32,
    Root.DOUBLE: np.uint64,
    Root.DATE: np.uint32,
    Root.TIME: np.uint32,
}


class Tail(Protocol):
    """One item of the variable part, for each row of a block."""

    @property
    def byte_lengths(self) -> Length:
        """Padded length of the item in every row, a multiple of 8."""

    def words(self, position: int, rows: npt.NDArray[np.intp] | None) -> Words:
        """Word ``position`` of the item in the given rows (None: all), which all have this word."""


@dataclass(frozen=True, slots=True)
class RowWords:
    """The words of a block of rows: first ``fixed`` (header and slots), then ``tails`` in field order."""

    row_count: int
    fixed: tuple[Word, ...]
    tails: tuple[Tail, ...]

    @property
    def byte_lengths(self) -> Length:
        total: Length = 8 * len(self.fixed)
        for tail in self.tails:
            total = total + tail.byte_lengths
        return total


def header_bytes(arity: int) -> int:
    """Bytes before the first slot: row kind byte and null bits, in whole words."""
    return (arity + 63 + 8) // 64 * 8


def row_word_blocks(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]) -> Iterator[RowWords]:
    """The words of all rows, in blocks of at most BLOCK_ROWS rows; nothing for zero rows.

    Columns may be chunked, sliced and have nulls; an Arrow type other than the engine's for ``types`` is cast. Without
    columns there is no row count, so the caller must handle the empty row.
    """
    encoders = [_encoder(column, column_type) for column, column_type in zip(columns, types, strict=True)]
    counts = {encoder.row_count for encoder in encoders}
    if len(counts) != 1:
        raise BrokenInvariant(f"columns of one row set have different lengths: {sorted(counts)}; pass equal ones")
    for start in range(0, counts.pop(), BLOCK_ROWS):
        yield _encode_block(encoders, start)


class _Encoder(Protocol):
    @property
    def row_count(self) -> int: ...

    @property
    def valid(self) -> Mask | None: ...

    def encode(self, rows: slice, offset: Length) -> tuple[Word, Tail | None]:
        """The slot word and the variable item of the rows; ``offset`` is the start of that item in each row."""


def _encode_block(encoders: Sequence[_Encoder], start: int) -> RowWords:
    rows = slice(start, min(start + BLOCK_ROWS, encoders[0].row_count))
    header = _header_words(encoders, rows)
    offset: Length = 8 * (len(header) + len(encoders))
    slots: list[Word] = []
    tails: list[Tail] = []
    for encoder in encoders:
        slot, tail = encoder.encode(rows, offset)
        slots.append(slot)
        if tail is not None:
            tails.append(tail)
            offset = offset + tail.byte_lengths
    return RowWords(rows.stop - rows.start, (*header, *slots), tuple(tails))


def _header_words(encoders: Sequence[_Encoder], rows: slice) -> list[Word]:
    words: list[Word] = [0] * (header_bytes(len(encoders)) // 8)
    for position, encoder in enumerate(encoders):
        if encoder.valid is None:
            continue
        nulls = ~encoder.valid[rows]
        if nulls.any():
            word, bit = divmod(position + 8, 64)
            words[word] = _either(words[word], nulls.astype(np.uint64) << np.uint64(bit))
    return words


# ---------------------------------------------------------------- encoders


@dataclass(frozen=True, slots=True)
class _FixedWidth:
    """Types whose value fits the slot; ``values`` are unsigned so that widening fills with zeros."""

    values: npt.NDArray[Any]
    valid: Mask | None

    @property
    def row_count(self) -> int:
        return len(self.values)

    def encode(self, rows: slice, offset: Length) -> tuple[Word, Tail | None]:
        slot = self.values[rows].astype(np.uint64, copy=False)
        if self.valid is not None:
            slot = np.where(self.valid[rows], slot, np.uint64(0))
        return slot, None


@dataclass(frozen=True, slots=True)
class _ArrayTail:
    """An item of the same number of words in every row."""

    items: tuple[Words, ...]

    @property
    def byte_lengths(self) -> int:
        return 8 * len(self.items)

    def words(self, position: int, rows: npt.NDArray[np.intp] | None) -> Words:
        words = self.items[position]
        return words if rows is None else words[rows]


@dataclass(frozen=True, slots=True)
class _PreciseTimestamp:
    """Timestamps finer than milliseconds: millis in the variable part, also for NULL, and the remaining nanos in the
    slot."""

    values: npt.NDArray[np.int64]
    valid: Mask | None
    units_per_milli: int

    @property
    def row_count(self) -> int:
        return len(self.values)

    def encode(self, rows: slice, offset: Length) -> tuple[Word, Tail | None]:
        values = self.values[rows]
        if self.valid is not None:
            values = np.where(self.valid[rows], values, 0)
        millis = values // self.units_per_milli
        nanos = (values - millis * self.units_per_milli) * (_NANOS_PER_MILLI // self.units_per_milli)
        return _reference(nanos, offset), _ArrayTail((millis.view(np.uint64),))


@dataclass(frozen=True, slots=True)
class _BigDecimal:
    """Decimals of more than 18 digits: minimal big-endian two's complement in 16 reserved bytes, also for null."""

    low: Words
    high: Words
    valid: Mask | None

    @property
    def row_count(self) -> int:
        return len(self.low)

    def encode(self, rows: slice, offset: Length) -> tuple[Word, Tail | None]:
        low, high = self.low[rows], self.high[rows]
        lengths = _minimal_bytes(low, high)
        if self.valid is not None:
            low, high = (np.where(self.valid[rows], part, np.uint64(0)) for part in (low, high))
            lengths = np.where(self.valid[rows], lengths, np.uint64(0))
        shift = np.uint64(8) * (np.uint64(16) - lengths)
        wide, bits = shift >= 64, shift & np.uint64(63)
        carried = np.where(bits > 0, low >> ((np.uint64(64) - bits) & np.uint64(63)), np.uint64(0))
        top = np.where(wide, low << bits, (high << bits) | carried)
        bottom = np.where(wide, np.uint64(0), low << bits)
        return _reference(lengths, offset), _ArrayTail((top.byteswap(), bottom.byteswap()))


def _minimal_bytes(low: Words, high: Words) -> Words:
    """Bytes of the shortest two's complement form of the 128-bit values."""
    sign = (high.view(np.int64) >> np.int64(63)).view(np.uint64)
    low, high = low ^ sign, high ^ sign
    lengths = np.ones(len(low), np.uint64)
    above = high > 0
    for bit in range(7, 64, 8):
        lengths += above | (low >> np.uint64(bit) > 0)
        lengths += high >> np.uint64(bit) > 0
    return lengths


@dataclass(frozen=True, slots=True)
class _ByteStrings:
    """Strings and binaries: up to 7 bytes in the slot, longer ones in the variable part."""

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[Any]
    valid: Mask | None

    @property
    def row_count(self) -> int:
        return len(self.offsets) - 1

    def encode(self, rows: slice, offset: Length) -> tuple[Word, Tail | None]:
        bounds = self.offsets[rows.start : rows.stop + 1].astype(np.int64)
        block = _ByteBlock(
            data=np.concatenate([self.data[bounds[0] : bounds[-1]], np.zeros(8, np.uint8)]),
            starts=bounds[:-1] - bounds[0],
            lengths=np.diff(bounds),
        )
        valid = None if self.valid is None else self.valid[rows]
        if valid is None or valid.all():
            return block.encode(offset)
        slot, tail = _ByteBlock(block.data, block.starts, np.where(valid, block.lengths, 0)).encode(offset)
        return np.where(valid, slot, np.uint64(0)), tail


@dataclass(frozen=True, slots=True)
class _ByteBlock:
    """Byte strings of one block; ``data`` ends with 8 spare bytes, so that a word can be read at every start."""

    data: npt.NDArray[np.uint8]
    starts: Lengths
    lengths: Lengths

    def encode(self, offset: Length) -> tuple[Word, Tail | None]:
        shortest, longest = int(self.lengths.min()), int(self.lengths.max())
        if longest <= LONGEST_INLINE:
            return self._inline(), None
        if shortest == longest:
            return self._references(offset), _ByteTail(self, (shortest + 7) // 8 * 8)
        padded = (self.lengths + 7) & ~7
        if shortest > LONGEST_INLINE:
            return self._references(offset), _ByteTail(self, padded)
        short = self.lengths <= LONGEST_INLINE
        return np.where(short, self._inline(), self._references(offset)), _ByteTail(self, np.where(short, 0, padded))

    def _inline(self) -> Words:
        kept = np.minimum(self.lengths, LONGEST_INLINE)
        marks = (kept.astype(np.uint64) | np.uint64(0x80)) << np.uint64(56)
        return (self.load(self.starts) & _WORD_MASKS[kept]) | marks

    def _references(self, offset: Length) -> Word:
        uniform = int(self.lengths[0]) if (self.lengths == self.lengths[0]).all() else self.lengths
        return _reference(uniform, offset)

    def load(self, positions: Lengths) -> Words:
        """The 8 bytes at each position, as little-endian words."""
        anywhere: Words = np.ndarray((len(self.data) - 7,), np.dtype("<u8"), self.data, 0, (1,))
        return anywhere[positions]


@dataclass(frozen=True, slots=True)
class _ByteTail:
    block: _ByteBlock
    byte_lengths: Length

    def words(self, position: int, rows: npt.NDArray[np.intp] | None) -> Words:
        starts, lengths = self.block.starts, self.block.lengths
        if rows is not None:
            starts, lengths = starts[rows], lengths[rows]
        words = self.block.load(starts + 8 * position)
        kept = np.minimum(lengths - 8 * position, 8)
        return words if (kept == 8).all() else words & _WORD_MASKS[kept]


def _reference(low: Length | Words, offset: Length) -> Word:
    """Slot that points to an item: the offset in the high half, ``low`` (a length or nanos) in the low half."""
    high = offset << 32 if isinstance(offset, int) else offset.astype(np.uint64) << np.uint64(32)
    return _either(low if isinstance(low, int) else low.astype(np.uint64), high)


def _either(left: Word, right: Word) -> Word:
    """Bitwise or."""
    if isinstance(left, int) and isinstance(right, int):
        return left | right
    combined: Words = np.bitwise_or(left, right)
    return combined


# ---------------------------------------------------------------- from Arrow


def _encoder(column: pa.Array | pa.ChunkedArray, t: DataType) -> _Encoder:
    if t.is_nested:
        raise UnsupportedFeature(f"a value of type {t} cannot be part of a key or a partition; use an atomic column")
    array = _one_array(column, t)
    valid = None if array.null_count == 0 else np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
    if t.root in CHARACTERS | BINARIES:
        return _byte_strings(array, valid)
    if t.root is Root.BOOLEAN:
        packed = _buffer(array, 1, np.uint8)
        bits = np.unpackbits(packed, bitorder="little")[array.offset : array.offset + len(array)]
        return _FixedWidth(bits, valid)
    if t.root is Root.DECIMAL:
        pairs = _buffer(array, 1, np.uint64)[2 * array.offset : 2 * (array.offset + len(array))]
        low, high = pairs[::2], pairs[1::2]
        return _FixedWidth(low, valid) if (t.precision or 0) <= 18 else _BigDecimal(low, high, valid)
    whole = slice(array.offset, array.offset + len(array))
    if t.root in TIMESTAMPS and (t.precision or 0) > 3:
        units_per_milli = 1_000 if (t.precision or 0) <= 6 else _NANOS_PER_MILLI
        return _PreciseTimestamp(_buffer(array, 1, np.int64)[whole], valid, units_per_milli)
    return _FixedWidth(_buffer(array, 1, _NARROW.get(t.root, np.uint64))[whole], valid)


def _one_array(column: pa.Array | pa.ChunkedArray, t: DataType) -> pa.Array:
    expected = arrow_type(t)
    if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
        expected = column.type
    if column.type != expected:
        column = column.cast(expected)
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return column.chunk(0)
        if column.nbytes >= 2**31 and pa.types.is_string(expected):
            column = column.cast(pa.large_string())
        elif column.nbytes >= 2**31 and pa.types.is_binary(expected):
            column = column.cast(pa.large_binary())
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column


def _byte_strings(array: pa.Array, valid: Mask | None) -> _ByteStrings:
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    if len(array) == 0:
        return _ByteStrings(np.zeros(0, np.uint8), np.zeros(1, np.int64), valid)
    offsets = _buffer(array, 1, np.int64 if large else np.int32)[array.offset : array.offset + len(array) + 1]
    return _ByteStrings(_buffer(array, 2, np.uint8), offsets, valid)


def _buffer(array: pa.Array, number: int, dtype: type[np.generic]) -> npt.NDArray[Any]:
    buffer = array.buffers()[number]
    if buffer is None:
        return np.zeros(0, dtype)
    usable = buffer.size // np.dtype(dtype).itemsize
    return np.frombuffer(buffer, dtype, count=usable)
