"""Aggregate functions by name, bound to a column after a check of its type.

Implements the type checks of Paimon's aggregate functions. Java does them when the first writer or reader opens.
"""

from __future__ import annotations

from collections.abc import Mapping

from paimon_table.errors import ConfigError
from paimon_table.merge.aggregate.collect import Collect
from paimon_table.merge.aggregate.column_function import ColumnFunction
from paimon_table.merge.aggregate.extremes import BoolAnd, BoolOr, Max, Min
from paimon_table.merge.aggregate.function import AggregateFunction
from paimon_table.merge.aggregate.ignore_retract import IgnoreRetract
from paimon_table.merge.aggregate.listagg import ListAgg
from paimon_table.merge.aggregate.merge_map import MergeMap
from paimon_table.merge.aggregate.merge_map_with_keytime import MergeMapWithKeyTime
from paimon_table.merge.aggregate.nested_update import NestedPartialUpdate, NestedUpdate
from paimon_table.merge.aggregate.picked import (
    FirstNonNullValue,
    FirstNotNullValue,
    FirstValue,
    LastNonNullValue,
    LastValue,
    PrimaryKey,
)
from paimon_table.merge.aggregate.product import Product
from paimon_table.merge.aggregate.roaring import Bitmap32, Bitmap64
from paimon_table.merge.aggregate.sketches import HllSketch, ThetaSketch
from paimon_table.merge.aggregate.sum import Count, Sum
from paimon_table.options.field_options import FieldOptions, naming_option
from paimon_table.options.names import IGNORE_RETRACT
from paimon_table.types import DataField


def aggregate_function(name: str, field: DataField, options: FieldOptions) -> AggregateFunction:
    """The function called ``name`` for the column; ``options`` are the column's options.

    Raises ConfigError for unknown names, for columns of a type that the function does not take, and for options that do
    not fit the column.
    """
    named = _FUNCTIONS.get(name)
    if named is None:
        raise ConfigError(
            f"column {field.name!r}: aggregate function {name!r} is unknown; use one of: {', '.join(FUNCTION_NAMES)}",
            option=naming_option(field.name, options),
            column=field.name,
        )
    function = named.bound(field, options)
    return IgnoreRetract(function) if options.ignore_retract else function


def function_class(name: str) -> type[ColumnFunction]:
    """The class of the function of that name, whose attributes are the facts about it; the base if there is none."""
    return _FUNCTIONS.get(name, ColumnFunction)


def functions_with(setting: str) -> tuple[str, ...]:
    """The names of the functions that use a setting of a column; empty if it is not a setting of functions."""
    if setting == IGNORE_RETRACT:
        return FUNCTION_NAMES
    return tuple(name for name, function in _FUNCTIONS.items() if setting in function.settings)


_FUNCTIONS: Mapping[str, type[ColumnFunction]] = {
    function.name: function
    for function in (
        BoolAnd,
        BoolOr,
        Collect,
        Count,
        FirstNonNullValue,
        FirstNotNullValue,
        FirstValue,
        HllSketch,
        LastNonNullValue,
        LastValue,
        ListAgg,
        Max,
        MergeMap,
        MergeMapWithKeyTime,
        Min,
        NestedPartialUpdate,
        NestedUpdate,
        PrimaryKey,
        Product,
        Bitmap32,
        Bitmap64,
        Sum,
        ThetaSketch,
    )
}
FUNCTION_NAMES = tuple(_FUNCTIONS)
