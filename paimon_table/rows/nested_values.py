"""Arrow lists and maps from Python values; a function of the caller turns nested values into an array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from paimon_table.types import DataType, arrow_type

ToArray = Callable[[list[Any], DataType], pa.Array]
"""Returns the array of some values of a type, which have the caller's form."""


def list_array(values: Sequence[Sequence[Any] | None], t: DataType, to_array: ToArray) -> pa.Array:
    """Lists of an ARRAY; None for NULL."""
    assert t.element is not None
    return pa.ListArray.from_arrays(_offsets(values), to_array(_flat(values), t.element), type=arrow_type(t))


def map_array(
    values: Sequence[Sequence[tuple[Any, Any]] | None],
    t: DataType,
    entry_types: tuple[DataType, DataType],
    to_array: ToArray,
) -> pa.Array:
    """Maps of a MAP or MULTISET, each a list of (key, value); None for NULL."""
    entries = _flat(values)
    parts = (to_array([entry[i] for entry in entries], part) for i, part in enumerate(entry_types))
    return pa.MapArray.from_arrays(_offsets(values), *parts, type=arrow_type(t))


def _offsets(values: Sequence[Sequence[Any] | None]) -> pa.Array:
    """The start of each value; NULL for NULL."""
    offsets: list[int | None] = []
    total = 0
    for value in values:
        offsets.append(None if value is None else total)
        total += 0 if value is None else len(value)
    return pa.array([*offsets, total], pa.int32())


def _flat(values: Sequence[Sequence[Any] | None]) -> list[Any]:
    return [item for value in values if value is not None for item in value]
