"""Columns as unsigned words that sort like their values.

Implements Paimon's comparison of keys and sequence fields: NULL first, booleans false < true, text and bytes by
unsigned bytes, floats with -0.0 < 0.0 and NaN largest, decimals and times by value. A column becomes one or more uint64
words, most significant first. Their values depend on all values of the column, so words of different calls cannot be
compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import UnsupportedFeature
from paimon_table.rows.chunks import one_array

U64 = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.int64]

_WORD_BYTES = 8
_NAN_BITS = {16: 0x7E00, 32: 0x7FC00000, 64: 0x7FF8000000000000}


@dataclass(frozen=True, slots=True)
class Word:
    """One sort word per row, and the number of its low bits in use."""

    values: U64
    bits: int


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one column, most significant first; ``exact`` = equal words mean equal values."""

    words: tuple[Word, ...]
    exact: bool


def normal_form(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column as one array of integers, decimals or binary whose own order is the key order."""
    column = one_array(column)
    t = column.type
    if pa.types.is_integer(t) or pa.types.is_decimal(t) or pa.types.is_binary(t):
        return column
    if pa.types.is_string(t):
        return column.view(pa.binary())
    if pa.types.is_boolean(t):
        return column.cast(pa.int8())
    if pa.types.is_floating(t):
        return _ordered_floats(column)
    if pa.types.is_date32(t) or pa.types.is_time32(t):
        return column.view(pa.int32())
    if pa.types.is_timestamp(t):
        return column.view(pa.int64())
    raise UnsupportedFeature(f"values of type {t} have no order; use an atomic column as key or sequence field")


def _ordered_floats(column: pa.Array) -> pa.Array:
    """Floats as signed integers in Java's order; all NaNs are the same value."""
    width = column.type.bit_width
    signed = np.dtype(f"int{width}")
    floats = column.fill_null(0).to_numpy(zero_copy_only=False)
    bits = np.where(np.isnan(floats), signed.type(_NAN_BITS[width]), floats.view(signed))
    ordered = np.where(bits < 0, bits ^ np.iinfo(signed).max, bits).astype(signed)
    mask = None if column.null_count == 0 else column.is_null().to_numpy(zero_copy_only=False)
    return pa.array(ordered, mask=mask)


def integers(normal: pa.Array) -> npt.NDArray[np.signedinteger]:
    """The values of an integer array in normal form, 0 for NULL; without a copy if there is no NULL."""
    if normal.null_count:
        normal = pc.fill_null(normal, 0)
    values: npt.NDArray[np.signedinteger] = normal.to_numpy(zero_copy_only=False)
    return values


def column_words(normal: pa.Array, descending: bool = False) -> Words:
    """Words of a column in normal form; NULL is the smallest also when ``descending``."""
    words, exact = _value_words(normal)
    if descending:
        words = [Word(_limit(w.bits) - w.values, w.bits) for w in words]
    if normal.null_count:
        valid = normal.is_valid().to_numpy(zero_copy_only=False).astype(np.uint64)
        words = [Word(valid, 1), *(Word(w.values * valid, w.bits) for w in words)]
    return Words(tuple(words), exact)


def exact_words(normal: pa.Array, descending: bool = False) -> Words:
    """As ``column_words``, but equal words always mean equal values (long texts are ranked)."""
    words = column_words(normal, descending)
    if words.exact:
        return words
    ranks = pc.rank(normal, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    mask = None if normal.null_count == 0 else normal.is_null().to_numpy(zero_copy_only=False)
    return column_words(pa.array(ranks, mask=mask), descending)


def _limit(bits: int) -> np.uint64:
    return np.uint64((1 << bits) - 1)


def _value_words(normal: pa.Array) -> tuple[list[Word], bool]:
    if len(normal) == 0:
        return [Word(np.zeros(0, np.uint64), 0)], True
    if pa.types.is_integer(normal.type):
        return [_integer_word(integers(normal))], True
    if pa.types.is_decimal(normal.type):
        return _decimal_words(normal), True
    return _text_words(normal)


def _integer_word(values: npt.NDArray[np.integer]) -> Word:
    low, high = int(values.min()), int(values.max())
    unsigned: U64 = (values if values.dtype == np.uint64 else values.astype(np.int64, copy=False)).view(np.uint64)
    distance = unsigned - np.uint64(low % (1 << 64))
    return Word(distance, (high - low).bit_length())


def _decimal_words(normal: pa.Array) -> list[Word]:
    limbs = np.frombuffer(normal.buffers()[1], np.int64)[2 * normal.offset : 2 * (normal.offset + len(normal))]
    low, high = limbs[0::2], limbs[1::2]
    if normal.null_count:
        valid = normal.is_valid().to_numpy(zero_copy_only=False)
        low, high = np.where(valid, low, 0), np.where(valid, high, 0)
    if normal.type.precision <= 18:
        return [_integer_word(low)]
    return [_integer_word(high), _integer_word(low.view(np.uint64))]


def _text_words(normal: pa.Array) -> tuple[list[Word], bool]:
    """The first bytes after the common prefix of all values; exact if seven bytes and a length are enough."""
    offsets = np.frombuffer(normal.buffers()[1], np.int32)[normal.offset : normal.offset + len(normal) + 1]
    lengths = np.diff(offsets).astype(np.int64)
    if normal.null_count:
        lengths[normal.is_null().to_numpy(zero_copy_only=False)] = 0
    data = normal.buffers()[2]
    data = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    shared = 0 if normal.null_count else _shared_prefix(normal)
    lengths -= shared
    first = _first_bytes(data, offsets[:-1].astype(np.int64) + shared, lengths)
    longest = int(lengths.max())
    if longest >= _WORD_BYTES:
        return [Word(first, 64)], False
    return [Word(first | lengths.astype(np.uint64), 64)], True


def _shared_prefix(normal: pa.Array) -> int:
    """The length of the common prefix of all values, which is that of the smallest and the largest value."""
    extremes = pc.min_max(normal)
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    return next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))


def _first_bytes(data: npt.NDArray[np.uint8], starts: Indices, lengths: Indices) -> U64:
    """Eight bytes from each start as a big-endian number, zeros after the value's end."""
    padded = np.concatenate([data[int(starts.min()) : int((starts + lengths).max())], np.zeros(_WORD_BYTES, np.uint8)])
    unaligned = np.ndarray((len(padded) - _WORD_BYTES + 1,), ">u8", padded.data, strides=(1,))
    words = unaligned[starts - starts.min()].astype(np.uint64)
    unused_bits = (_WORD_BYTES - np.minimum(lengths, _WORD_BYTES)).astype(np.uint64) * np.uint64(8)
    empty = lengths <= 0
    keep = ~np.uint64(0) << np.where(empty, np.uint64(0), unused_bits)
    return np.where(empty, np.uint64(0), words & keep)


def pack(words: Sequence[Word]) -> list[Word]:
    """Adjacent words combined as far as their bits fit; the order stays."""
    packed: list[Word] = []
    for word in words:
        if packed and packed[-1].bits + word.bits <= 64:
            before = packed.pop()
            shift = np.uint64(min(word.bits, 63))
            high = before.values << shift if word.bits < 64 else np.uint64(0)
            word = Word(word.values | high, before.bits + word.bits)
        packed.append(word)
    return packed


def sort_words(words: Sequence[Word]) -> Indices:
    """Stable order of the rows by the words, most significant first."""
    packed = pack(words)
    if len(packed) > 1:
        return np.lexsort([w.values for w in reversed(packed)])
    values, bits = packed[0].values, packed[0].bits
    n = len(values)
    if n == 0 or not np.any(values[1:] < values[:-1]):
        return np.arange(n, dtype=np.int64)
    position_bits = (n - 1).bit_length()
    if bits + position_bits > 64:
        return np.argsort(values, kind="stable")
    tagged = (values << np.uint64(position_bits)) | np.arange(n, dtype=np.uint64)
    tagged.sort()
    tagged &= _limit(position_bits)
    return tagged.view(np.int64)
