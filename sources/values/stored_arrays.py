"""Arrow arrays from Python values in the form in which a Paimon type stores them.

Temporal values are integers here (days, milliseconds of the day, units since the epoch), because Python's own classes
end at the years 1 and 9999.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from paimon_table.types import DataType, Root, arrow_type

_INTEGER_BACKED = {
    Root.DATE: pa.int32(),
    Root.TIME: pa.int32(),
    Root.TIMESTAMP: pa.int64(),
    Root.TIMESTAMP_LTZ: pa.int64(),
}


def stored_array(values: Sequence[Any], target: DataType) -> pa.Array:
    """Array of ``arrow_type(target)``.

    Values: bool, int, float, Decimal (already at the type's scale), str, bytes; list for ARRAY; list of pairs for MAP
    and MULTISET; tuple in field order for ROW; None for NULL.
    """
    backing = _INTEGER_BACKED.get(target.root)
    if backing is not None:
        return pa.array(values, backing).view(arrow_type(target))
    match target.root:
        case Root.ARRAY:
            return _list_array(values, target)
        case Root.MAP | Root.MULTISET:
            return _map_array(values, target)
        case Root.ROW:
            children = [
                stored_array([None if v is None else v[i] for v in values], f.type) for i, f in enumerate(target.fields)
            ]
            mask = pa.array([v is None for v in values], pa.bool_())
            return pa.StructArray.from_arrays(children, fields=list(arrow_type(target)), mask=mask)
        case _:
            return pa.array(values, arrow_type(target))


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Offsets of nested values; a NULL offset marks a NULL entry."""
    offsets: list[int | None] = []
    total = 0
    for value in values:
        offsets.append(None if value is None else total)
        total += 0 if value is None else len(value)
    return pa.array([*offsets, total], pa.int32())


def _list_array(values: Sequence[Any], target: DataType) -> pa.Array:
    assert target.element is not None
    elements = stored_array([e for v in values if v is not None for e in v], target.element)
    return pa.ListArray.from_arrays(_offsets(values), elements, type=arrow_type(target))


def _map_array(values: Sequence[Any], target: DataType) -> pa.Array:
    key, value = (target.element, DataType(Root.INT)) if target.root is Root.MULTISET else (target.key, target.value)
    assert key is not None and value is not None
    pairs = [pair for v in values if v is not None for pair in v]
    return pa.MapArray.from_arrays(
        _offsets(values),
        stored_array([k for k, _ in pairs], key),
        stored_array([v for _, v in pairs], value),
        type=arrow_type(target),
    )
