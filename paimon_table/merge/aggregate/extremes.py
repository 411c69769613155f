"""max and min of every type that has an order; bool_or and bool_and are max and min of booleans. NULLs are skipped.

Values order as keys do: text and bytes by unsigned bytes, NaN largest, -0.0 below 0.0, false below true.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.merge.aggregate.column_function import ColumnFunction, SimpleAccumulator, skipping_nulls
from paimon_table.merge.aggregate.function import Accumulator, Mask
from paimon_table.merge.aggregate.ordering import order_key
from paimon_table.merge.aggregate.segments import lengths, non_null
from paimon_table.options.field_options import FieldOptions
from paimon_table.rows.words import Indices, normal_form
from paimon_table.types import DataField, DataType, Root


@dataclass(frozen=True, slots=True)
class Extreme(ColumnFunction):
    """The largest or smallest value; cannot retract."""

    is_largest: ClassVar[bool]
    is_commutative: ClassVar[bool] = True
    can_retract: ClassVar[bool] = False

    @classmethod
    def bound(cls, field: DataField, options: FieldOptions) -> Self:
        cls.check(not field.type.is_nested, field, options, "a comparable type")
        return cls(field.name, field.type)

    def accumulator(self) -> Accumulator:
        key = order_key(self.type.root)
        return SimpleAccumulator(skipping_nulls(_larger(key) if self.is_largest else _smaller(key)), self._retract)

    def reduce(self, values: pa.Array, starts: Indices, is_retract: Mask | None) -> pa.Array | None:
        self.refuse_retracts(is_retract)
        chosen = non_null(values, starts)
        if len(chosen.values) == 0:
            return chosen.spread(chosen.values)
        normal = normal_form(chosen.values)
        if pa.types.is_integer(normal.type) and self.type.root not in {Root.FLOAT, Root.DOUBLE}:
            extreme = np.maximum if self.is_largest else np.minimum
            reduced = pa.array(extreme.reduceat(normal.to_numpy(zero_copy_only=False), chosen.starts))
            return chosen.spread(_from_integers(reduced, chosen.values.type))
        winners = _tournament(normal, chosen.starts, pc.greater if self.is_largest else pc.less)
        return chosen.spread(chosen.values.take(pa.array(winners)))

    def _retract(self, accumulated: Any, value: Any) -> Any:
        self.refuse_retract()


@dataclass(frozen=True, slots=True)
class Max(Extreme):
    name: ClassVar[str] = "max"
    is_largest: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Min(Extreme):
    name: ClassVar[str] = "min"
    is_largest: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class BooleanExtreme(Extreme):
    """The extreme of booleans: true is larger."""

    @classmethod
    def sample_type(cls, options: FieldOptions) -> DataType:
        return DataType(Root.BOOLEAN)

    @classmethod
    def bound(cls, field: DataField, options: FieldOptions) -> Self:
        cls.check(field.type.root is Root.BOOLEAN, field, options, "BOOLEAN")
        return cls(field.name, field.type)


@dataclass(frozen=True, slots=True)
class BoolOr(BooleanExtreme):
    name: ClassVar[str] = "bool_or"
    is_largest: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class BoolAnd(BooleanExtreme):
    name: ClassVar[str] = "bool_and"
    is_largest: ClassVar[bool] = False


def _from_integers(integers: pa.Array, t: pa.DataType) -> pa.Array:
    return integers.cast(t) if pa.types.is_boolean(t) else integers.view(t)


def _tournament(normal: pa.Array, starts: Indices, wins: Callable[[pa.Array, pa.Array], pa.Array]) -> Indices:
    """For each key, the position of the value that wins against all others of the key; the earliest of equal ones.

    Each round compares neighbours of one key, so the number of rounds is logarithmic in the most values of a key.
    """
    positions = np.arange(len(normal))
    count = lengths(starts, len(normal))
    while (count > 1).any():
        rank = np.arange(len(positions)) - np.repeat(np.cumsum(count) - count, count)
        left = rank % 2 == 0
        has_rival = left & (rank + 1 < np.repeat(count, count))
        challenged = np.flatnonzero(has_rival)
        a, b = positions[challenged], positions[challenged + 1]
        lost = wins(normal.take(pa.array(b)), normal.take(pa.array(a))).to_numpy(zero_copy_only=False)
        positions[challenged[lost]] = b[lost]
        positions = positions[left]
        count = (count + 1) // 2
    return positions


def _larger(key: Callable[[Any], Any] | None) -> Callable[[Any, Any], Any]:
    if key is None:
        return lambda a, b: b if a < b else a
    return lambda a, b: b if key(a) < key(b) else a


def _smaller(key: Callable[[Any], Any] | None) -> Callable[[Any, Any], Any]:
    if key is None:
        return lambda a, b: b if b < a else a
    return lambda a, b: b if key(b) < key(a) else a
