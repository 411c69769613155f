"""Timestamps in ORC files outside the years 1677 to 2262.

Arrow reads ORC timestamps as nanoseconds in 64 bits and refuses others. Stripes with such values are read row by row
with pyorc, which has separate seconds and nanoseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyorc

from paimon_table.formats.file_format import DamagedFile, UnreadableValue
from paimon_table.formats.orc.rows import UTC, converters
from paimon_table.timestamps import NANOS_PER_SECOND, UNITS_PER_SECOND, beyond_64_bits
from paimon_table.types import DataField, DataType, Root, arrow_type, timestamp_unit


def far_timestamps(stream: pa.NativeFile, stripe: int, columns: Sequence[DataField]) -> list[pa.Array]:
    """The columns of one stripe, in their Arrow types.

    Raises DamagedFile if the stripe cannot be read, UnreadableValue for a TIMESTAMP of more than 6 digits that does not
    fit into nanoseconds of 64 bits.
    """
    names = [f.name for f in columns]
    try:
        file = pyorc.Reader(stream, column_names=names, timezone=UTC, converters=converters())
        rows = list(file.read_stripe(stripe))
        order = _field_names(file.selected_schema)
    except pyorc.ParseError as error:
        raise DamagedFile(str(error)) from error
    return [_column([row[order.index(f.name)] for row in rows], f) for f in columns]


def _field_names(schema: pyorc.TypeDescription) -> list[str]:
    assert isinstance(schema, pyorc.Struct)
    return list(schema.fields)


def _column(values: list[Any], f: DataField) -> pa.Array:
    try:
        return pa.array([_value(value, f.type) for value in values], arrow_type(f.type))
    except UnreadableValue as error:
        raise UnreadableValue(f"column {f.name!r} holds {error}") from error


def _value(value: Any, t: DataType) -> Any:
    """One value of pyorc in the form that ``pa.array`` takes for the type."""
    if value is None:
        return None
    match t.root, t.element, t.key, t.value:
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ, _, _, _:
            units = value * UNITS_PER_SECOND[timestamp_unit(t.precision or 0)] // NANOS_PER_SECOND
            if not -(1 << 63) <= units < 1 << 63:
                raise UnreadableValue(beyond_64_bits(t, *divmod(value, NANOS_PER_SECOND)))
            return units
        case Root.ARRAY, DataType() as element, _, _:
            return [_value(item, element) for item in value]
        case Root.MULTISET, DataType() as element, _, _:
            return [(_value(key, element), count) for key, count in value.items()]
        case Root.MAP, _, DataType() as key_type, DataType() as value_type:
            return [(_value(key, key_type), _value(item, value_type)) for key, item in value.items()]
        case Root.ROW, _, _, _:
            return {f.name: _value(item, f.type) for f, item in zip(t.fields, value, strict=True)}
        case _:
            return value
