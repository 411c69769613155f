"""product: multiplies numbers, divides by retracted ones.

NULL changes nothing; integers wrap around, decimals round half up on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.merge.aggregate.column_function import NumberFunction, SimpleAccumulator, skipping_nulls
from paimon_table.merge.aggregate.folding import with_folded
from paimon_table.merge.aggregate.function import Accumulator, Mask
from paimon_table.merge.aggregate.segments import any_of, non_null, sequential
from paimon_table.rows import numeric
from paimon_table.rows.words import Indices
from paimon_table.types import Root, arrow_type


@dataclass(frozen=True, slots=True)
class Product(NumberFunction):
    name: ClassVar[str] = "product"

    def accumulator(self) -> Accumulator:
        return SimpleAccumulator(skipping_nulls(self._times), self._retract)

    def reduce(self, values: pa.Array, starts: Indices, is_retract: Mask | None) -> pa.Array | None:
        if self.type.root is Root.DECIMAL:
            return None
        chosen = non_null(values, starts)
        if len(chosen.values) == 0:
            return chosen.spread(chosen.values)
        numbers = chosen.values.to_numpy(zero_copy_only=False)
        if self.type.root in {Root.FLOAT, Root.DOUBLE}:
            reduced = pa.array(sequential(numbers, chosen.starts, np.multiply))
        else:
            reduced = self._integers(numbers, chosen.starts)
        spread = chosen.spread(reduced)
        if is_retract is None:
            return spread
        return with_folded(self, values, starts, is_retract, spread, any_of(is_retract, starts))

    def _integers(self, numbers: npt.NDArray[np.signedinteger], starts: Indices) -> pa.Array:
        with np.errstate(over="ignore", invalid="ignore"):
            estimated = np.multiply.reduceat(numbers.astype(np.float64), starts)
        numeric.warn_if_beyond(self.column, self.type, estimated)
        products = np.multiply.reduceat(numbers.astype(np.int64), starts)
        return pa.array(products.astype(arrow_type(self.type).to_pandas_dtype()))

    def _times(self, accumulated: Any, value: Any) -> Any:
        match self.type.root:
            case Root.FLOAT | Root.DOUBLE:
                return numeric.as_float(self.type, accumulated * value)
            case Root.DECIMAL:
                return numeric.fitting(self.type, numeric.EXACT.multiply(accumulated, value))
        return numeric.wrapped(self.column, self.type, accumulated * value)

    def _retract(self, accumulated: Any, value: Any) -> Any:
        if accumulated is None or value is None:
            return accumulated
        operation = f"{accumulated} / {value}"
        if self.type.root in {Root.FLOAT, Root.DOUBLE}:
            with np.errstate(all="ignore"):
                return numeric.as_float(self.type, np.float64(accumulated) / np.float64(value))
        if value == 0:
            numeric.refuse(self.column, operation, "/ by zero")
        if self.type.root is Root.DECIMAL:
            return numeric.fitting(self.type, self._quotient(accumulated, value))
        quotient = abs(accumulated) // abs(value)
        signed = quotient if (accumulated < 0) == (value < 0) else -quotient
        return numeric.wrapped(self.column, self.type, signed)

    def _quotient(self, dividend: Decimal, divisor: Decimal) -> Decimal:
        """The exact quotient; raises an error if it has no finite decimal form."""
        rest = (Fraction(dividend) / Fraction(divisor)).denominator
        for factor in (2, 5):
            while rest % factor == 0:
                rest //= factor
        if rest != 1:
            numeric.refuse(self.column, f"{dividend} / {divisor}", "non-terminating decimal expansion")
        return numeric.EXACT.divide(dividend, divisor)
