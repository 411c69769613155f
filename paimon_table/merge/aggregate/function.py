"""The contract of an aggregate function: many values of one column of one key in, one value out.

Implements the calling rules of Paimon's field aggregators. The functions themselves are modules in this folder. Each
has an ordered fold, which is the definition, and most have a vector form, which gives the same for all keys at once.
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
        """Take a value of a record (+I, +U) that is newer than all so far."""

    def add_older(self, value: Any) -> None:
        """Take a value of a record that is older than the accumulated ones (late records of sequence groups)."""

    def retract(self, value: Any) -> None:
        """Take back a value of a -U or -D record; MalformedRecord when the function cannot."""


class AggregateFunction(Protocol):
    """One function bound to one column; stateless and picklable."""

    @property
    def is_commutative(self) -> bool:
        """Whether the order of added values does not matter, so that ``add`` and ``add_older`` are the same."""

    @property
    def keeps_single(self) -> bool:
        """Whether one added value alone always comes out as it is."""

    @property
    def can_retract(self) -> bool:
        """Whether -U and -D records are not an error to it."""

    def reduce(self, values: pa.Array, starts: Indices, is_retract: Mask | None) -> pa.Array | None:
        """The value of every key at once; None when these inputs need the fold (the caller then folds).

        ``values`` are in merge order, grouped by key. ``starts`` are the positions where a key begins; each key has at
        least one value. ``is_retract`` marks the values to retract; None means that all are added. The result has one
        value per key and equals folding each key with a fresh accumulator.
        """

    def accumulator(self) -> Accumulator:
        """A fresh state for one key."""

    def to_python(self, values: pa.Array) -> list[Any]:
        """The values as the accumulator takes them, without loss (also nanoseconds, decimals, nested values)."""

    def to_arrow(self, values: list[Any]) -> pa.Array:
        """The inverse of ``to_python``, in the column's Arrow type."""
