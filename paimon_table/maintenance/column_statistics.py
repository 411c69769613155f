"""Statistics of the values in one column, gathered piece by piece with bounded memory.

Implements Paimon's ``ColStats``: number of different values, smallest and largest value as text, NULLs, lengths. As in
Paimon's ANALYZE, texts and bytes get lengths and no smallest value, and values of other types have the length of their
Spark type. Nested columns get only their NULL count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from paimon_table.rows.chunks import one_array
from paimon_table.types import BINARIES, CHARACTERS, TIMESTAMPS, DataField, Root

MOST_HASHES = 1 << 14
"""Up to this number, different values are counted exactly; a larger number is estimated, mostly within two percent."""

_HASH_SPACE = 1 << 64
_LENGTHS = {
    Root.BOOLEAN: 1,
    Root.TINYINT: 1,
    Root.SMALLINT: 2,
    Root.INT: 4,
    Root.DATE: 4,
    Root.TIME: 4,
    Root.FLOAT: 4,
    Root.BIGINT: 8,
    Root.DOUBLE: 8,
    Root.TIMESTAMP: 8,
    Root.TIMESTAMP_LTZ: 8,
}
_MOST_DIGITS_OF_LONG = 18

Hashes = npt.NDArray[np.uint64]


@dataclass(slots=True)
class DistinctValues:
    """The smallest hashes of the values seen: their density shows how many distinct values there are."""

    smallest: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    is_cut: bool = False

    def add(self, hashes: Hashes) -> None:
        """Add these values, some of which may have been added before."""
        merged = np.unique(np.concatenate([self.smallest, hashes]))
        self.is_cut |= len(merged) > MOST_HASHES
        self.smallest = merged[:MOST_HASHES]

    @property
    def count(self) -> int:
        """The number of different values."""
        if not self.is_cut:
            return len(self.smallest)
        return round((MOST_HASHES - 1) * _HASH_SPACE / int(self.smallest[-1]))


@dataclass(slots=True)
class ColumnStatistics:
    """The statistics of the values of one column that were added so far."""

    column: DataField
    value_count: int = 0
    null_count: int = 0
    length_sum: int = 0
    max_length: int = 0
    has_nan: bool = False
    extremes: pa.Array | None = None
    """The smallest and the largest value so far."""
    distinct: DistinctValues = field(default_factory=DistinctValues)

    def add(self, values: pa.ChunkedArray) -> None:
        """Add the values of more rows."""
        self.null_count += values.null_count
        if self.column.type.is_nested:
            return
        present = one_array(values.drop_null())
        if len(present) == 0:
            return
        self.value_count += len(present)
        self.distinct.add(_hashes(present.unique(), self.column))
        if self.column.type.root in CHARACTERS | BINARIES:
            lengths = pc.utf8_length(present) if self.column.type.root in CHARACTERS else pc.binary_length(present)
            self.length_sum += pc.sum(lengths).as_py()
            self.max_length = max(self.max_length, pc.max(lengths).as_py())
        else:
            self._add_extremes(present)

    def _add_extremes(self, present: pa.Array) -> None:
        if self.column.type.root in (Root.FLOAT, Root.DOUBLE):
            is_nan = pc.is_nan(present)
            self.has_nan |= bool(pc.any(is_nan).as_py())
            present = present.filter(pc.invert(is_nan))
        if self.extremes is not None:
            present = pa.concat_arrays([self.extremes, present])
        if len(present):
            found = pc.min_max(present)
            self.extremes = pa.concat_arrays([pa.array([found["min"]]), pa.array([found["max"]])]).cast(present.type)

    def to_json(self) -> dict[str, object]:
        """The JSON members of the column in a statistics file; leaves out unknown ones."""
        known: dict[str, object] = {"colId": self.column.id}
        if self.column.type.is_nested:
            return {**known, "nullCount": self.null_count}
        known["distinctCount"] = self.distinct.count
        if self.extremes is not None or self.has_nan:
            least, most = (None, None) if self.extremes is None else _texts(self.extremes, self.column)
            known["min"] = "NaN" if least is None else least
            known["max"] = "NaN" if self.has_nan else most
        known["nullCount"] = self.null_count
        average, longest = self._lengths()
        if longest is not None:
            known |= {"avgLen": average, "maxLen": longest}
        return known

    def _lengths(self) -> tuple[int | None, int | None]:
        t = self.column.type
        if t.root in CHARACTERS | BINARIES:
            return (-(-self.length_sum // self.value_count), self.max_length) if self.value_count else (None, None)
        if t.root is Root.DECIMAL:
            length = 8 if (t.precision or 0) <= _MOST_DIGITS_OF_LONG else 16
            return length, length
        return _LENGTHS[t.root], _LENGTHS[t.root]


def _texts(values: pa.Array, column: DataField) -> list[str]:
    """Values in the form that Java's serializers read."""
    match column.type.root:
        case Root.BOOLEAN:
            return [str(value).lower() for value in values.to_pylist()]
        case Root.DATE | Root.TIME:
            return [str(value) for value in values.cast(pa.int32()).to_pylist()]
        case Root.DECIMAL:
            return [f"{value:f}" for value in values.to_pylist()]
        case Root.FLOAT | Root.DOUBLE:
            return [_float_text(value) for value in values.to_numpy(zero_copy_only=False)]
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            naive = values.cast(pa.int64()).cast(pa.timestamp(values.type.unit))
            return [str(text) for text in naive.cast(pa.string()).to_pylist()]
        case _:
            return [str(value) for value in values.to_pylist()]


def _float_text(value: np.floating[npt.NBitBase]) -> str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return str(value)


def _hashes(values: pa.Array, column: DataField) -> Hashes:
    """A 64-bit hash of each value, evenly distributed."""
    root = column.type.root
    if root in CHARACTERS | BINARIES | {Root.DECIMAL, Root.BOOLEAN}:
        texts = values.cast(pa.string()) if root in (Root.DECIMAL, Root.BOOLEAN) else values
        pieces = texts.cast(pa.binary()).to_pylist()
        return np.fromiter(map(xxhash.xxh64_intdigest, pieces), np.uint64, len(pieces))
    if root in TIMESTAMPS:
        values = values.cast(pa.int64())
    elif root in (Root.DATE, Root.TIME):
        values = values.cast(pa.int32())
    numbers = values.to_numpy(zero_copy_only=False)
    if root in (Root.FLOAT, Root.DOUBLE):
        return _mixed(numbers.astype(np.float64).view(np.uint64))
    return _mixed(numbers.astype(np.int64).view(np.uint64))


def _mixed(bits: Hashes) -> Hashes:
    """The last step of MurmurHash3, which is one to one."""
    bits = (bits ^ (bits >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    bits = (bits ^ (bits >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return bits ^ (bits >> np.uint64(33))
