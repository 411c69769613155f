"""sum: adds numbers, subtracts retracted ones. NULL adds nothing; integers wrap around, decimals overflow to NULL.

An intermediate overflow of a decimal makes the sum NULL, even if later values would reduce it again. So sums of
decimals near the limit are folded in order. A wrapped integer sum does not depend on the order and number of merges.

count: the number of values that are not NULL, minus the retracted ones. A stored row cannot distinguish a count from a
value that is not counted yet. So arriving values are replaced by their count (1, or 0 for NULL), and merging only adds.
Up to version 0.8, Paimon had this function without that step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.merge.aggregate.column_function import NumberFunction, SimpleAccumulator, skipping_nulls
from paimon_table.merge.aggregate.folding import with_folded
from paimon_table.merge.aggregate.function import Accumulator, Mask
from paimon_table.merge.aggregate.segments import Chosen, lengths, non_null, sequential
from paimon_table.options.field_options import FieldOptions
from paimon_table.rows import numeric
from paimon_table.rows.words import Indices
from paimon_table.types import DataField, DataType, Root, arrow_type, parse_type

_LIMB_BITS = 32
_LIMB = np.int64((1 << _LIMB_BITS) - 1)


@dataclass(frozen=True, slots=True)
class Sum(NumberFunction):
    name: ClassVar[str] = "sum"

    def accumulator(self) -> Accumulator:
        return SimpleAccumulator(skipping_nulls(self._plus), self._retract)

    def reduce(self, values: pa.Array, starts: Indices, is_retract: Mask | None) -> pa.Array | None:
        chosen = non_null(values, starts, is_retract)
        if len(chosen.values) == 0:
            return chosen.spread(chosen.values)
        match self.type.root:
            case Root.FLOAT | Root.DOUBLE:
                reduced = pa.array(sequential(_signed(_numbers(chosen.values), chosen), chosen.starts, np.add))
            case Root.DECIMAL:
                reduced = self._decimals(chosen)
            case _:
                reduced = self._integers(chosen)
        return chosen.spread(reduced)

    def _integers(self, chosen: Chosen) -> pa.Array:
        plain = _numbers(chosen.values).astype(np.int64)
        signed = _signed(plain, chosen)
        peak = max(int(plain.max()), -int(plain.min()))
        if self._may_overflow(chosen, peak, len(plain)):
            estimated = np.add.reduceat(signed.astype(np.float64), chosen.starts)
            numeric.warn_if_beyond(self.column, self.type, estimated)
        return pa.array(np.add.reduceat(signed, chosen.starts).astype(arrow_type(self.type).to_pandas_dtype()))

    def _decimals(self, chosen: Chosen) -> pa.Array:
        words = np.frombuffer(chosen.values.buffers()[1], np.int64)[2 * chosen.values.offset :]
        words = words[: 2 * len(chosen.values)]
        low, high = words[0::2], words[1::2]
        limbs = [low & _LIMB, (low >> _LIMB_BITS) & _LIMB, high & _LIMB, high >> _LIMB_BITS]
        sums = [np.add.reduceat(_signed(limb, chosen), chosen.starts) for limb in limbs]
        for i in range(3):
            sums[i + 1] += sums[i] >> _LIMB_BITS
            sums[i] &= _LIMB
        out = np.empty(2 * len(chosen.starts), np.int64)
        out[0::2] = sums[0] | (sums[1] << _LIMB_BITS)
        out[1::2] = sums[2] | (sums[3] << _LIMB_BITS)
        reduced = pa.Array.from_buffers(chosen.values.type, len(chosen.starts), [None, pa.py_buffer(out)])
        is_negative = high < 0
        upper, lower = np.where(is_negative, ~high, high), np.where(is_negative, ~low, low).view(np.uint64)
        magnitudes = upper * 2.0**64 + lower + 1.0
        return self._checked(chosen, reduced, int(magnitudes.max() / numeric.SAFE), magnitudes)

    def _checked(self, chosen: Chosen, reduced: pa.Array, peak: int, magnitudes: npt.NDArray[Any]) -> pa.Array:
        """``reduced``, with a fold for keys whose intermediate sum may have left the range."""
        if not self._may_overflow(chosen, peak, len(magnitudes)):
            return reduced
        near = np.add.reduceat(magnitudes, chosen.starts) > numeric.largest(self.type) * numeric.SAFE
        return with_folded(self, chosen.values, chosen.starts, chosen.is_retract, reduced, near)

    def _may_overflow(self, chosen: Chosen, peak: int, count: int) -> bool:
        return peak * int(lengths(chosen.starts, count).max()) > numeric.largest(self.type)

    def _retract(self, accumulated: Any, value: Any) -> Any:
        if value is None:
            return accumulated
        if accumulated is None:
            return self._negated(value)
        match self.type.root:
            case Root.FLOAT | Root.DOUBLE:
                return numeric.as_float(self.type, accumulated - value)
            case Root.DECIMAL:
                return numeric.fitting(self.type, numeric.EXACT.subtract(accumulated, value))
        return numeric.wrapped(self.column, self.type, accumulated - value)

    def _plus(self, accumulated: Any, value: Any) -> Any:
        match self.type.root:
            case Root.FLOAT | Root.DOUBLE:
                return numeric.as_float(self.type, accumulated + value)
            case Root.DECIMAL:
                return numeric.fitting(self.type, numeric.EXACT.add(accumulated, value))
        return numeric.wrapped(self.column, self.type, accumulated + value)

    def _negated(self, value: Any) -> Any:
        if isinstance(value, Decimal):
            return numeric.EXACT.minus(value)
        if isinstance(value, float):
            return -value
        return numeric.wrapped(self.column, self.type, -value)


def _numbers(values: pa.Array) -> npt.NDArray[Any]:
    numbers: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return numbers


def _signed(values: npt.NDArray[Any], chosen: Chosen) -> npt.NDArray[Any]:
    return values if chosen.is_retract is None else np.where(chosen.is_retract, -values, values)


@dataclass(frozen=True, slots=True)
class Count(Sum):
    name: ClassVar[str] = "count"

    @classmethod
    def sample_type(cls, options: FieldOptions) -> DataType:
        return parse_type("BIGINT")

    @classmethod
    def bound(cls, field: DataField, options: FieldOptions) -> Self:
        cls.check(field.type.root in (Root.INT, Root.BIGINT), field, options, "INT or BIGINT")
        return cls(field.name, field.type)


def counted(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Arriving rows with the values of these columns replaced by their count."""
    for name in columns:
        at = rows.schema.get_field_index(name)
        field = rows.schema.field(at)
        rows = rows.set_column(at, field, rows.column(name).is_valid().cast(field.type))
    return rows
