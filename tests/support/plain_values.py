"""Table values as plain JSON-able Python values, the form of the semantics corpus and of all independent readers.

Decimals, dates, times and timestamps are strings, bytes are ``"0x.."``. Arrays and rows are lists; maps are lists of
``[key, value]`` sorted by key (a dict is accepted as input). Floats that JSON does not know are the words NaN, Infinity
and -Infinity. Two values are equal when their plain forms are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_table.types import DataField, DataType, Root, arrow_type, timestamp_unit

Plain = Any
"""None, bool, int, float, str or a list of these."""

MILLIS_PER_DAY = 86_400_000
_UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def time_text(millis_of_day: int) -> str:
    seconds, millis = divmod(millis_of_day, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{millis:03}"


def time_millis(text: str) -> int:
    hours, minutes, seconds = [*text.split(":"), "0"][:3]
    return int(hours) * 3_600_000 + int(minutes) * 60_000 + int(Decimal(seconds) * 1000)


def date_text(epoch_day: int) -> str:
    return str(np.datetime64(epoch_day, "D"))


def date_days(text: str) -> int:
    return int(np.datetime64(text, "D").astype(np.int64))


def timestamp_text(value: int, unit: str, precision: int) -> str:
    """Text of a timestamp with as many fraction digits as the engine keeps for ``precision``: 3, 6 or 9."""
    kept = timestamp_unit(precision)
    scaled = value * _UNITS_PER_SECOND[kept] // _UNITS_PER_SECOND[unit]
    seconds, fraction = divmod(scaled, _UNITS_PER_SECOND[kept])
    digits = len(str(_UNITS_PER_SECOND[kept])) - 1
    return str(np.datetime64(seconds, "s")).replace("T", " ") + f".{fraction:0{digits}}"


def timestamp_value(text: str, unit: str) -> int:
    whole, _, fraction = text.strip().rstrip("Z").replace("T", " ").partition(".")
    if ":" not in whole:
        whole += " 00:00:00"
    seconds = int(np.datetime64(whole.replace(" ", "T"), "s").astype(np.int64))
    return seconds * _UNITS_PER_SECOND[unit] + int(fraction.ljust(9, "0")[:9] or 0) * _UNITS_PER_SECOND[unit] // 10**9


def float_plain(value: float) -> Plain:
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def decimal_text(value: Decimal, scale: int) -> str:
    return f"{value:.{scale}f}"


def sorted_pairs(pairs: Iterable[tuple[Plain, Plain]]) -> list[list[Plain]]:
    return sorted(([key, value] for key, value in pairs), key=lambda pair: sort_key(pair[0]))


def sort_key(value: Plain) -> str:
    """Text that orders any plain values and distinguishes all different ones (also -0.0 from 0.0)."""
    return json.dumps(value, ensure_ascii=False)


# ---------------------------------------------------------------- Arrow to plain


def _scalar_plain(scalar: pa.Scalar, t: DataType) -> Plain:
    if not scalar.is_valid:
        return None
    match t.root:
        case Root.FLOAT | Root.DOUBLE:
            return float_plain(scalar.as_py())
        case Root.DECIMAL:
            return decimal_text(scalar.as_py(), t.scale or 0)
        case Root.BINARY | Root.VARBINARY:
            return "0x" + scalar.as_py().hex()
        case Root.DATE:
            return date_text(scalar.value)
        case Root.TIME:
            return time_text(scalar.value * 1000 // _UNITS_PER_SECOND[scalar.type.unit])
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            return timestamp_text(scalar.value, scalar.type.unit, 6 if t.precision is None else t.precision)
        case Root.ARRAY:
            assert t.element is not None
            return [_scalar_plain(item, t.element) for item in scalar.values]
        case Root.MAP | Root.MULTISET:
            return _map_plain(scalar, t)
        case Root.ROW:
            return [_scalar_plain(scalar[i], field.type) for i, field in enumerate(t.fields)]
        case _:
            return scalar.as_py()


def _map_plain(scalar: pa.Scalar, t: DataType) -> Plain:
    key_type, value_type = map_types(t)
    entries = scalar.values
    if isinstance(entries.type, pa.StructType):
        keys, values = entries.field(0), entries.field(1)
    else:
        raise TypeError(f"not a map: {entries.type}")
    pairs = zip(keys, values, strict=True)
    return sorted_pairs((_scalar_plain(k, key_type), _scalar_plain(v, value_type)) for k, v in pairs)


def map_types(t: DataType) -> tuple[DataType, DataType]:
    """Key and value type of a MAP, or element type and count type of a MULTISET."""
    if t.root is Root.MULTISET:
        assert t.element is not None
        return t.element, DataType(Root.INT, False)
    assert t.key is not None
    assert t.value is not None
    return t.key, t.value


def column_plain(column: pa.ChunkedArray | pa.Array, t: DataType) -> list[Plain]:
    return [_scalar_plain(scalar, t) for scalar in column]


def rows_plain(table: pa.Table, fields: Sequence[DataField]) -> list[list[Plain]]:
    """Rows of the columns named by ``fields``, whatever Arrow units the table uses."""
    columns = [column_plain(table.column(field.name), field.type) for field in fields]
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in range(table.num_rows)]


# ---------------------------------------------------------------- plain to Arrow


def _arrow_value(value: Plain, t: DataType) -> Any:
    """The value as pyarrow's array constructor takes it; temporal values are integers in the unit of the type."""
    if value is None:
        return None
    match t.root:
        case Root.FLOAT | Root.DOUBLE:
            return float(value)
        case Root.DECIMAL:
            return Decimal(str(value))
        case Root.CHAR | Root.VARCHAR:
            return str(value)
        case Root.BINARY | Root.VARBINARY:
            return value if isinstance(value, bytes) else bytes.fromhex(value.removeprefix("0x"))
        case Root.DATE:
            return date_days(str(value))
        case Root.TIME:
            return time_millis(str(value))
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            return timestamp_value(str(value), timestamp_unit(6 if t.precision is None else t.precision))
        case Root.ARRAY:
            assert t.element is not None
            return [_arrow_value(item, t.element) for item in value]
        case Root.MAP | Root.MULTISET:
            key_type, value_type = map_types(t)
            pairs = value.items() if isinstance(value, dict) else value
            return [(_arrow_value(k, key_type), _arrow_value(v, value_type)) for k, v in pairs]
        case Root.ROW:
            return {f.name: _arrow_value(item, f.type) for f, item in zip(t.fields, value, strict=True)}
        case _:
            return value


def column_arrow(values: Sequence[Plain], t: DataType) -> pa.Array:
    return pa.array([_arrow_value(value, t) for value in values], arrow_type(t))


def rows_arrow(rows: Sequence[Sequence[Plain]], fields: Sequence[DataField]) -> pa.Table:
    """An Arrow table with the engine's types; columns are nullable so that a test can hand in what a table refuses."""
    arrays = [column_arrow([row[i] for row in rows], field.type) for i, field in enumerate(fields)]
    return pa.Table.from_arrays(arrays, names=[field.name for field in fields])


def canonical(value: Plain, t: DataType) -> Plain:
    """The one spelling of a value that was written by hand (``"1.5"`` of a DECIMAL(10, 2) becomes ``"1.50"``)."""
    return column_plain(column_arrow([value], t), t)[0]


def canonical_rows(rows: Iterable[Sequence[Plain]], fields: Sequence[DataField]) -> list[list[Plain]]:
    return [[canonical(value, f.type) for value, f in zip(row, fields, strict=True)] for row in rows]


def sorted_rows(rows: Iterable[Sequence[Plain]]) -> list[list[Plain]]:
    """Rows in an order of their own, for comparing contents whose order is free."""
    return sorted((list(row) for row in rows), key=sort_key)
