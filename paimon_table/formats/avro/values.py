"""The records of an Avro file as columns.

Times are integers, decimals are the big-endian bytes of their unscaled value, maps are dicts, or lists of entries if
keys are not texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from paimon_table.formats.avro.schema import entry_types, is_array_map
from paimon_table.rows.nested_values import list_array, map_array
from paimon_table.types import TIMESTAMPS, DataField, DataType, Root, arrow_type

_DECIMAL_BYTES = 16


def from_records(records: Sequence[dict[str, Any]], fields: Sequence[DataField]) -> pa.Table:
    """The columns of the records, in their Arrow types."""
    present = [f for f in fields if not records or f.name in records[0]]
    return pa.table(
        [_array([record[f.name] for record in records], f.type) for f in present], names=[f.name for f in present]
    )


def _array(values: list[Any], t: DataType) -> pa.Array:
    target = arrow_type(t)
    match t.root:
        case Root.DECIMAL:
            return decimals(values, t)
        case Root.DATE | Root.TIME:
            return pa.array(values, pa.int32()).cast(target)
        case root if root in TIMESTAMPS:
            return pa.array(values, pa.int64()).cast(target)
        case Root.ARRAY:
            return list_array(values, t, _array)
        case Root.MULTISET | Root.MAP:
            return _map_array(values, t)
        case Root.ROW:
            children = [_array([None if v is None else v[f.name] for v in values], f.type) for f in t.fields]
            fields = [target.field(i) for i in range(target.num_fields)]
            mask = pa.array([v is None for v in values], pa.bool_())
            return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
        case _:
            return pa.array(values, target)


def _map_array(values: list[Any], t: DataType) -> pa.Array:
    if is_array_map(t):
        values = [None if v is None else [(entry["key"], entry["value"]) for entry in v] for v in values]
    else:
        values = [None if v is None else list(v.items()) for v in values]
    return map_array(values, t, entry_types(t), _array)


def decimals(values: Sequence[bytes | None], t: DataType) -> pa.Array:
    """Decimals from the bytes of their unscaled values; pa.ArrowInvalid for more digits than a decimal can have."""
    numbers = (0 if value is None else int.from_bytes(value, "big", signed=True) for value in values)
    try:
        data = b"".join(number.to_bytes(_DECIMAL_BYTES, "little", signed=True) for number in numbers)
    except OverflowError as error:
        raise pa.ArrowInvalid(f"a value of {t} has more than {_DECIMAL_BYTES} bytes") from error
    valid = pa.array([value is not None for value in values], pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(arrow_type(t), len(values), [valid, pa.py_buffer(data)])
