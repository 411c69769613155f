"""The buckets of rows and 64-bit hashes of keys, for whole columns at once.

Implements Paimon's bucket functions: ``default`` (Murmur3-32 over the BinaryRow of the bucket key), ``mod`` and
``hive``. Hashes are folded over the words of the rows column by column, without building row bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.errors import ConfigError
from paimon_table.rows.hive_hash import hive_hash
from paimon_table.rows.row_words import Length, RowWords, Tail, Word, row_word_blocks
from paimon_table.types import DataType, Root

Hashes = npt.NDArray[np.int32]
Columns = Sequence[pa.Array | pa.ChunkedArray]
_State = Any
"""The hash state: an int while all rows have equal words, then an array with one element per row."""
_Mixer = Callable[[_State, Word], _State]

_SEED = 42
_MASK32 = 0xFFFF_FFFF
_MASK64 = 0xFFFF_FFFF_FFFF_FFFF


def assign_buckets(columns: Columns, types: Sequence[DataType], num_buckets: int, function: str = "default") -> Hashes:
    """Bucket of every row, from the bucket-key columns in bucket-key order; ``num_buckets`` > 0.

    ``function`` is the option bucket-function.type. Raises ConfigError for an unknown function or an unsupported key
    type.
    """
    if function == "default":
        magnitude = np.abs(murmur_hash_columns(columns, types)).view(np.uint32)
        return _modulo(magnitude, num_buckets)
    if function == "hive":
        return _modulo(hive_hash(columns, types) & np.uint32(0x7FFF_FFFF), num_buckets)
    if function == "mod":
        return _floor_mod(columns, types, num_buckets)
    raise ConfigError(f"bucket-function.type {function!r} is unknown; use default, mod or hive")


def _modulo(values: npt.NDArray[np.uint32], divisor: int) -> Hashes:
    """The remainder, computed from the quotient: NumPy divides by a constant with SIMD, but takes remainders one by
    one."""
    n = np.uint32(divisor)
    return (values - values // n * n).view(np.int32)


def _floor_mod(columns: Columns, types: Sequence[DataType], num_buckets: int) -> Hashes:
    """The remainder towards minus infinity; NULL counts as 0, the content of its slot."""
    if len(types) != 1 or types[0].root not in (Root.INT, Root.BIGINT):
        raise ConfigError(
            "bucket-function.type mod needs exactly one bucket key of type INT or BIGINT, "
            f"not ({', '.join(map(str, types))}); use the default function"
        )
    slots = np.concatenate([np.zeros(0, np.uint64), *(block.fixed[1] for block in row_word_blocks(columns, types))])
    values = slots.view(np.int64) if types[0].root is Root.BIGINT else slots.astype(np.int32)
    return (values - values // num_buckets * num_buckets).astype(np.int32)


# ---------------------------------------------------------------- Murmur3-32


def murmur_hash_columns(columns: Columns, types: Sequence[DataType]) -> Hashes:
    """Hash of the BinaryRow of each row, as Java's BinaryRow.hashCode; needs at least one column."""
    blocks = [
        _murmur_finish(_fold(block, _SEED, _murmur_mix, np.uint32), block.byte_lengths, block.row_count)
        for block in row_word_blocks(columns, types)
    ]
    return np.concatenate(blocks) if blocks else np.zeros(0, np.int32)


def _murmur_mix(state: _State, word: Word) -> _State:
    if isinstance(word, int):
        return _murmur_mix_half(_murmur_mix_half(state, word & _MASK32), word >> 32)
    low = word.astype(np.uint32)
    high = (word >> np.uint64(32)).astype(np.uint32)
    return _murmur_mix_half(_murmur_mix_half(state, low), high)


def _murmur_mix_half(state: _State, half: _State) -> _State:
    half = _times32(_rotate_left32(_times32(half, 0xCC9E2D51), 15), 0x1B873593)
    return _plus32(_times32(_rotate_left32(state ^ half, 13), 5), 0xE6546B64)


def _murmur_finish(state: _State, byte_lengths: Length, row_count: int) -> Hashes:
    lengths = byte_lengths if isinstance(byte_lengths, int) else byte_lengths.astype(np.uint32)
    state = state ^ lengths
    state = _times32(state ^ (state >> 16), 0x85EBCA6B)
    state = _times32(state ^ (state >> 13), 0xC2B2AE35)
    return _as_array(state ^ (state >> 16), row_count, np.uint32).view(np.int32)


def _times32(value: _State, factor: int) -> _State:
    return value * factor & _MASK32 if isinstance(value, int) else value * np.uint32(factor)


def _plus32(value: _State, term: int) -> _State:
    return value + term & _MASK32 if isinstance(value, int) else value + np.uint32(term)


def _rotate_left32(value: _State, bits: int) -> _State:
    rotated = value << bits | value >> (32 - bits)
    return rotated & _MASK32 if isinstance(value, int) else rotated


# ---------------------------------------------------------------- 64-bit key hash


def key_hash64(columns: Columns, types: Sequence[DataType]) -> npt.NDArray[np.uint64]:
    """A well mixed 64-bit hash of the key columns of every row, for local lookup files.

    Equal keys have equal hashes in every process and version with the same _KEY_HASH_FACTORS; it is not part of the
    table format. Keys are equal when their BinaryRow bytes are.
    """
    blocks = [
        _key_hash_finish(_fold(block, 0, _key_hash_mix, np.uint64), block.byte_lengths, block.row_count)
        for block in row_word_blocks(columns, types)
    ]
    return np.concatenate(blocks) if blocks else np.zeros(0, np.uint64)


_KEY_HASH_FACTORS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def _key_hash_mix(state: _State, word: Word) -> _State:
    mixed = _times64(state ^ word, _KEY_HASH_FACTORS[0])
    return mixed ^ (mixed >> 32)


def _key_hash_finish(state: _State, byte_lengths: Length, row_count: int) -> npt.NDArray[np.uint64]:
    lengths = byte_lengths if isinstance(byte_lengths, int) else byte_lengths.astype(np.uint64)
    state = _times64(state ^ lengths, _KEY_HASH_FACTORS[1])
    state = _times64(state ^ (state >> 29), _KEY_HASH_FACTORS[2])
    return _as_array(state ^ (state >> 32), row_count, np.uint64)


def _times64(value: _State, factor: int) -> _State:
    return value * factor & _MASK64 if isinstance(value, int) else value * np.uint64(factor)


# ---------------------------------------------------------------- folding a block


def _fold(block: RowWords, seed: int, mix: _Mixer, dtype: type[np.generic]) -> _State:
    """Mix all words of each row, in row order, into one state per row."""
    state: _State = seed
    for word in block.fixed:
        state = mix(state, word)
    for tail in block.tails:
        state = _fold_tail(block, tail, state, mix, dtype)
    return state


def _fold_tail(block: RowWords, tail: Tail, state: _State, mix: _Mixer, dtype: type[np.generic]) -> _State:
    lengths = tail.byte_lengths
    if isinstance(lengths, int):
        for position in range(lengths >> 3):
            state = mix(state, tail.words(position, None))
        return state
    counts = lengths >> 3
    for position in range(int(counts.min())):
        state = mix(state, tail.words(position, None))
    state = _as_array(state, block.row_count, dtype)
    rows = np.arange(block.row_count)
    for position in range(int(counts.min()), int(counts.max())):
        rows = rows[counts[rows] > position]
        state[rows] = mix(state[rows], tail.words(position, rows))
    return state


def _as_array(state: _State, row_count: int, dtype: type[np.generic]) -> npt.NDArray[Any]:
    return np.full(row_count, state, dtype) if isinstance(state, int) else state
