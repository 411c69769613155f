"""``fields.<column>.ignore-retract``: a function that ignores retracts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_table.merge.aggregate.column_function import ColumnFunction
from paimon_table.merge.aggregate.folding import aggregate
from paimon_table.merge.aggregate.function import Accumulator, Mask
from paimon_table.merge.aggregate.segments import choose
from paimon_table.rows.words import Indices


@dataclass(frozen=True, slots=True)
class IgnoreRetract:
    """See ``AggregateFunction``."""

    inner: ColumnFunction

    @property
    def is_commutative(self) -> bool:
        return self.inner.is_commutative

    @property
    def keeps_single(self) -> bool:
        return self.inner.keeps_single

    @property
    def can_retract(self) -> bool:
        return True

    def accumulator(self) -> Accumulator:
        return _IgnoringAccumulator(self.inner.accumulator())

    def reduce(self, values: pa.Array, starts: Indices, is_retract: Mask | None) -> pa.Array | None:
        if is_retract is None or not is_retract.any():
            return self.inner.reduce(values, starts, None)
        chosen = choose(values, starts, None, np.logical_not(is_retract))
        return chosen.spread(aggregate(self.inner, chosen.values, chosen.starts, None))

    def to_python(self, values: pa.Array) -> list[Any]:
        return self.inner.to_python(values)

    def to_arrow(self, values: list[Any]) -> pa.Array:
        return self.inner.to_arrow(values)


class _IgnoringAccumulator:
    __slots__ = ("_inner",)

    def __init__(self, inner: Accumulator) -> None:
        self._inner = inner

    @property
    def value(self) -> Any:
        return self._inner.value

    @value.setter
    def value(self, value: Any) -> None:
        self._inner.value = value

    def add(self, value: Any) -> None:
        self._inner.add(value)

    def add_older(self, value: Any) -> None:
        self._inner.add_older(value)

    def retract(self, value: Any) -> None:
        return
