"""The contract of an aggregate function: it reduces many values of one column of a key to one value.

Implements the calling rules of Paimon's field aggregators. The functions themselves are modules in this folder. Each
has an ordered fold, which is the definition. Most also have a vector form, which computes all keys at once.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.rows.words import Indices

Mask = npt.NDArray[np.bool_]


class Accumulator(Protocol):
    """The state of one function for one key. Starts with NULL; ``value`` is the result so far, None for NULL.

    Values have the form of ``AggregateFunction.to_python``. A caller may set ``value``, if the row of a delete replaces
    the accumulated value.
    """

    value: Any

    def add(self, value: Any) -> None:
        """Add a value of a record (+I, +U) that is newer than all so far."""

    def add_older(self, value: Any) -> None:
        """Add a value of a record that is older than the accumulated ones (late records of sequence groups)."""

    def retract(self, value: Any) -> None:
        """Retract a value of a -U or -D record; raises MalformedRecord if the function cannot retract."""


class AggregateFunction(Protocol):
    """One function bound to one column; stateless and picklable."""

    @property
    def is_commutative(self) -> bool:
        """Whether the order of added values does not matter, so that ``add`` and ``add_older`` are the same."""

    @property
    def keeps_single(self) -> bool:
        """Whether a single added value is always the result."""

    @property
    def can_retract(self) -> bool:
        """Whether the function accepts -U and -D records."""

    def reduce(self, values: pa.Array, starts: Indices, is_retract: Mask | None) -> pa.Array | None:
        """The value of every key at once; None if these inputs need the fold (the caller then folds).

        ``values`` are in merge order, grouped by key. ``starts`` are the positions where a key begins; each key has at
        least one value. ``is_retract`` marks the values to retract; None means that all are added. The result has one
        value per key and equals folding each key with a fresh accumulator.
        """

    def accumulator(self) -> Accumulator:
        """A fresh state for one key."""

    def to_python(self, values: pa.Array) -> list[Any]:
        """The values in the form for the accumulator, without loss (including nanoseconds, decimals, nested values)."""

    def to_arrow(self, values: list[Any]) -> pa.Array:
        """The inverse of ``to_python``, in the column's Arrow type."""
