"""Arrow arrays from Python values in the form in which a Paimon type stores them.

Temporal values are integers here (days, milliseconds of the day, units since the epoch), because Python's own classes
end at the years 1 and 9999.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from paimon_table.rows.nested_values import list_array, map_array
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
            return list_array(values, target, stored_array)
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


def _map_array(values: Sequence[Any], target: DataType) -> pa.Array:
    key, value = (target.element, DataType(Root.INT)) if target.root is Root.MULTISET else (target.key, target.value)
    assert key is not None and value is not None
    return map_array(values, target, (key, value), stored_array)
