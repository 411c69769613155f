"""The ordered fold: one record after the other, key by key. The vector forms must agree with it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from paimon_table.merge.aggregate.function import AggregateFunction, Mask
from paimon_table.merge.aggregate.segments import choose, lengths, replace
from paimon_table.rows.words import Indices


def aggregate(function: AggregateFunction, values: pa.Array, starts: Indices, is_retract: Mask | None) -> pa.Array:
    """The value of every key: by vectors if the function supports that, else by the fold."""
    if len(starts) == 0:
        return values
    reduced = function.reduce(values, starts, is_retract)
    return fold(function, values, starts, is_retract) if reduced is None else reduced


def fold(
    function: AggregateFunction,
    values: pa.Array,
    starts: Indices,
    is_retract: Mask | None,
    from_first: bool = False,
) -> pa.Array:
    """The value of every key by the fold. With ``from_first`` each key starts with its first value."""
    plain = function.to_python(values)
    retracts = _retracts(is_retract, len(plain))
    bounds = [*starts.tolist(), len(plain)]
    out = []
    for start, end in pairwise(bounds):
        state = function.accumulator()
        if from_first:
            state.value = plain[start]
            start += 1
        for position in range(start, end):
            if retracts[position]:
                state.retract(plain[position])
            else:
                state.add(plain[position])
        out.append(state.value)
    return function.to_arrow(out)


def with_folded(
    function: AggregateFunction,
    values: pa.Array,
    starts: Indices,
    is_retract: Mask | None,
    reduced: pa.Array,
    keys: Mask,
) -> pa.Array:
    """``reduced`` with the values of the marked keys replaced by the values from the fold."""
    if not keys.any():
        return reduced
    chosen = choose(values, starts, is_retract, np.repeat(keys, lengths(starts, len(values))))
    return replace(reduced, keys, fold(function, chosen.values, chosen.starts, chosen.is_retract))


def _retracts(is_retract: Mask | None, total: int) -> Sequence[bool]:
    return [False] * total if is_retract is None else is_retract.tolist()
