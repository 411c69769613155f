"""The values to which a predicate confines a column.

Arrow expressions cannot be analysed, but they can be evaluated under a guarantee. The constants of the predicate divide
the range of a column into points and the gaps between them. If no row with NULL or a value in a gap can satisfy the
predicate, every matching row has one of the constants.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.scan.pruning import may_match, ranged_columns_only
from paimon_table.schema.table_schema import TableSchema
from paimon_table.types import DataType, arrow_type

MOST_CONSTANTS = 1_000
"""Predicates with more constants are not tested, because each constant needs a test."""


@dataclass(frozen=True, slots=True)
class ConfinedColumn:
    """A column and the values that matching rows can have in it; without values no row matches."""

    name: str
    type: DataType
    values: pa.Array


def confined_columns(predicate: pc.Expression, schema: TableSchema, names: Sequence[str]) -> tuple[ConfinedColumn, ...]:
    """Those of the named columns that the predicate confines; never FLOAT, DOUBLE and nested columns."""
    constants = list(_constants(predicate))
    if not 0 < len(constants) <= MOST_CONSTANTS:
        return ()
    found = []
    for name in names:
        column_type = schema.field(name).type
        if ranged_columns_only(schema, [name]):
            values = _confined(predicate, schema.arrow_schema, name, _points(constants, arrow_type(column_type)))
            if values is not None:
                found.append(ConfinedColumn(name, column_type, values))
    return tuple(found)


def _confined(predicate: pc.Expression, schema: pa.Schema, name: str, points: pa.Array) -> pa.Array | None:
    column = pc.field(name)
    if len(points) == 0:
        return None
    gaps = [column < points[0], column > points[-1], column.is_null()]
    gaps += [(column > low) & (column < high) for low, high in pairwise(points)]
    matching = may_match(predicate, [*gaps, *(column == point for point in points)], schema)
    if any(matching[: len(gaps)]):
        return None
    return points.filter(pa.array(matching[len(gaps) :], pa.bool_()))


def _points(constants: Sequence[pa.Scalar], target: pa.DataType) -> pa.Array:
    """The different constants that are values of the type, in ascending order."""
    values = []
    for constant in constants:
        try:
            values.append(pa.array([constant], constant.type).cast(target))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
    points = pc.unique(pa.concat_arrays([pa.array([], target), *values])).drop_null()
    return points.take(pc.sort_indices(points))


def _constants(predicate: pc.Expression) -> Iterator[pa.Scalar]:
    """The constants of an expression, from its serialized form, including the members of ``isin``."""
    _, arguments = predicate.__reduce__()
    with pa.ipc.open_file(arguments[0]) as file:
        columns = file.get_batch(0).columns if file.num_record_batches else []
    for column in columns:
        for scalar in column:
            if pa.types.is_struct(scalar.type):
                names = [field.name for field in scalar.type]
                if scalar.is_valid and "value_set" in names:
                    yield from scalar["value_set"].values
            elif scalar.is_valid:
                yield scalar
