"""The times of rows in a column, and the oldest time by the statistics of a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import UnsupportedFeature
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.rows.binary_row import deserialize_row
from paimon_table.schema.table_schema import TableSchema
from paimon_table.timestamps import UNITS_PER_SECOND
from paimon_table.types import TIMES_OF_ROWS, TIMESTAMPS, DataField, DataType, Root, arrow_type

_FIRST_MILLIS = 10**12
"""From here on a BIGINT counts milliseconds, below seconds."""


def seconds(column: pa.ChunkedArray | pa.Array, t: DataType) -> pa.ChunkedArray | pa.Array:
    """Seconds since the epoch, as Java counts them; NULL stays NULL."""
    numbers = column.cast(pa.int64())
    if t.root in TIMESTAMPS:
        return pc.divide(numbers, UNITS_PER_SECOND[column.type.unit])
    if t.root is Root.BIGINT:
        return pc.if_else(pc.greater_equal(numbers, _FIRST_MILLIS), pc.divide(numbers, 1000), numbers)
    return numbers


def least_second(file: DataFileMeta, column: DataField, schemas: Mapping[int, TableSchema]) -> int | None:
    """The second of the oldest row of the file by a column; None when its statistics do not show it."""
    schema = schemas[file.schema_id]
    names = file.value_stats_cols
    covered = schema.fields if names is None else tuple(schema.field(name) for name in names)
    position = next((i for i, f in enumerate(covered) if f.id == column.id), None)
    if position is None or covered[position].type.root not in TIMES_OF_ROWS:
        return None
    least_values = file.value_stats.min_values
    if int.from_bytes(least_values[:4], "big") != len(covered):
        return None
    try:
        least = deserialize_row(least_values, [f.type.with_nullable(True) for f in covered])[position]
    except UnsupportedFeature:
        return None  # a timestamp that rows in memory cannot hold; reading the column reports it
    return None if least is None else _second(least, covered[position].type)


def _second(value: Any, t: DataType) -> int:
    second: int = seconds(pa.array([value], arrow_type(t)), t)[0].as_py()
    return second
