"""Vector operations over segments: values grouped by key, each key's values adjacent and in order.

``starts`` are the positions where a key begins; every key has at least one value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.merge.aggregate.function import Mask
from paimon_table.rows.words import Indices

_ROUNDS = 64


@dataclass(frozen=True, slots=True)
class Chosen:
    """Some of the values, and the keys that still have one: ``has[k]`` for key k of the segments chosen from."""

    values: pa.Array
    starts: Indices
    has: Mask
    is_retract: Mask | None

    def spread(self, reduced: pa.Array) -> pa.Array:
        """One value per key of the original segments: NULL for keys without a chosen value."""
        if len(reduced) == len(self.has):
            return reduced
        return reduced.take(pa.array(np.cumsum(self.has) - 1, mask=~self.has))


def lengths(starts: Indices, total: int) -> Indices:
    """How many values each key has."""
    return np.diff(np.append(starts, total))


def ends(starts: Indices, total: int) -> Indices:
    """Position of the last value of each key."""
    return np.append(starts[1:], total) - 1


def choose(values: pa.Array, starts: Indices, is_retract: Mask | None, keep: Mask) -> Chosen:
    """The values at the positions where ``keep`` holds."""
    counts = np.add.reduceat(keep.astype(np.int64), starts)
    has = counts > 0
    counts = counts[has]
    kept = values.filter(pa.array(keep))
    return Chosen(kept, np.cumsum(counts) - counts, has, None if is_retract is None else is_retract[keep])


def non_null(values: pa.Array, starts: Indices, is_retract: Mask | None = None) -> Chosen:
    """The values that are not NULL."""
    if values.null_count == 0:
        return Chosen(values, starts, np.ones(len(starts), np.bool_), is_retract)
    return choose(values, starts, is_retract, validity(values))


def validity(values: pa.Array) -> Mask:
    """Which values are not NULL."""
    valid: Mask = values.is_valid().to_numpy(zero_copy_only=False)
    return valid


def any_of(marks: Mask, starts: Indices) -> Mask:
    """Which keys have a mark."""
    marked: Mask = np.logical_or.reduceat(marks, starts)
    return marked


def replace(values: pa.Array, keys: Mask, others: pa.Array) -> pa.Array:
    """The values, in which ``others`` replace the values of the marked keys, in order."""
    at = np.arange(len(values))
    at[keys] = len(values) + np.arange(len(others))
    return pa.concat_arrays([values, others]).take(pa.array(at))


def sequential(values: npt.NDArray[np.floating], starts: Indices, operation: np.ufunc) -> npt.NDArray[np.floating]:
    """Each key's values combined strictly in order, because rounding depends on the order; NumPy's reductions add in
    pairs.
    """
    count = lengths(starts, len(values))
    result = values[starts]
    active = np.flatnonzero(count > 1)
    position = 1
    with np.errstate(all="ignore"):
        while len(active) and position < _ROUNDS:
            result[active] = operation(result[active], values[starts[active] + position])
            position += 1
            active = active[count[active] > position]
        for key in active:
            result[key] = operation.accumulate(values[starts[key] : starts[key] + count[key]])[-1]
    return result
