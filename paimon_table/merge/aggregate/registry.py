"""Aggregate functions by name, bound to a column after checking that they take its type.

Implements the type checks of Paimon's aggregate functions, which Java makes when the first writer or reader opens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from paimon_table.errors import ConfigError
from paimon_table.merge.aggregate.collect import Collect
from paimon_table.merge.aggregate.column_function import ColumnFunction
from paimon_table.merge.aggregate.count import Count
from paimon_table.merge.aggregate.extremes import Extreme
from paimon_table.merge.aggregate.function import AggregateFunction
from paimon_table.merge.aggregate.ignore_retract import IgnoreRetract
from paimon_table.merge.aggregate.listagg import ListAgg
from paimon_table.merge.aggregate.merge_map import MergeMap
from paimon_table.merge.aggregate.merge_map_with_keytime import MergeMapWithKeyTime
from paimon_table.merge.aggregate.nested_partial_update import NestedPartialUpdate
from paimon_table.merge.aggregate.nested_rows import NestedRows, nested_rows
from paimon_table.merge.aggregate.nested_update import NO_LIMIT, NestedUpdate
from paimon_table.merge.aggregate.picked import FirstNonNullValue, FirstValue, LastNonNullValue, LastValue, PrimaryKey
from paimon_table.merge.aggregate.product import Product
from paimon_table.merge.aggregate.roaring import BitmapUnion
from paimon_table.merge.aggregate.sketches import SketchUnion, check_installed
from paimon_table.merge.aggregate.sum import Sum
from paimon_table.options.field_options import FieldOptions
from paimon_table.rows.numeric import NUMERIC
from paimon_table.rows.python_values import Identity, identity_of
from paimon_table.types import CHARACTERS, INTEGERS, MAX_LENGTH, DataField, DataType, Root, arrow_type

Maker = Callable[[DataField, FieldOptions], ColumnFunction]


def aggregate_function(name: str, field: DataField, options: FieldOptions) -> AggregateFunction:
    """The function of that name for the column; ``options`` are those of the column.

    Raises ConfigError for names that no function has, for columns of a type that the function does not take, and for
    options that do not fit the column.
    """
    make = _FUNCTIONS.get(name)
    if make is None:
        raise ConfigError(
            f"column {field.name!r}: aggregate function {name!r} is unknown; use one of: {', '.join(FUNCTION_NAMES)}"
        )
    function = make(field, options)
    return IgnoreRetract(function) if options.ignore_retract else function


def _check(fits: bool, function: str, field: DataField, wanted: str) -> None:
    if not fits:
        raise ConfigError(
            f"column {field.name!r}: aggregate function {function!r} takes {wanted}, not {field.type}; change the "
            f"column's type or fields.{field.name}.aggregate-function"
        )


def _sum(field: DataField, options: FieldOptions) -> ColumnFunction:
    _check(field.type.root in NUMERIC, "sum", field, "a numeric type")
    return Sum(field.name, field.type)


def _product(field: DataField, options: FieldOptions) -> ColumnFunction:
    _check(field.type.root in NUMERIC, "product", field, "a numeric type")
    return Product(field.name, field.type)


def _count(field: DataField, options: FieldOptions) -> ColumnFunction:
    _check(field.type.root in INTEGERS, "count", field, "an integer type")
    return Count(field.name, field.type)


def _extreme(name: str, is_largest: bool) -> Maker:
    def make(field: DataField, options: FieldOptions) -> ColumnFunction:
        _check(not field.type.is_nested, name, field, "a comparable type")
        return Extreme(field.name, field.type, name, is_largest)

    return make


def _boolean(name: str, is_largest: bool) -> Maker:
    def make(field: DataField, options: FieldOptions) -> ColumnFunction:
        _check(field.type.root is Root.BOOLEAN, name, field, "BOOLEAN")
        return Extreme(field.name, field.type, name, is_largest)

    return make


def _listagg(field: DataField, options: FieldOptions) -> ColumnFunction:
    is_string = field.type.root is Root.VARCHAR and field.type.length == MAX_LENGTH
    _check(is_string, "listagg", field, "STRING (VARCHAR without length)")
    return ListAgg(field.name, field.type, options.list_agg_delimiter, options.distinct)


def _collect(field: DataField, options: FieldOptions) -> ColumnFunction:
    _check(field.type.root is Root.ARRAY, "collect", field, "ARRAY")
    assert field.type.element is not None
    identity = identity_of(arrow_type(field.type.element))
    return Collect(field.name, field.type, options.distinct, identity, prepends_older=options.ignore_retract)


def _merge_map(field: DataField, options: FieldOptions) -> ColumnFunction:
    _check(field.type.root is Root.MAP, "merge_map", field, "MAP")
    return MergeMap(field.name, field.type, _key_identity(field))


def _merge_map_with_keytime(field: DataField, options: FieldOptions) -> ColumnFunction:
    name = "merge_map_with_keytime"
    _check(field.type.root is Root.MAP, name, field, "MAP")
    value = field.type.value
    fields = () if value is None or value.root is not Root.ROW else value.fields
    _check(len(fields) >= 2, name, field, "a MAP whose value type is a ROW of at least 2 fields")
    names = [f.name for f in fields]
    time = names[-1] if options.ts_field is None else options.ts_field
    if time not in names:
        raise ConfigError(
            f"option 'fields.{field.name}.ts-field': timestamp field {time!r} is not found in the ROW; its fields are: "
            f"{', '.join(names)}"
        )
    time_at = names.index(time)
    _check(fields[time_at].type.root in CHARACTERS, name, field, f"rows whose time field {time!r} is a text")
    return MergeMapWithKeyTime(field.name, field.type, time_at, _key_identity(field))


def _key_identity(field: DataField) -> Identity | None:
    assert field.type.key is not None
    return identity_of(arrow_type(field.type.key))


def _nested_rows(name: str, field: DataField, options: FieldOptions) -> NestedRows:
    row = field.type.element if field.type.root is Root.ARRAY else None
    _check(row is not None and row.root is Root.ROW, name, field, "ARRAY<ROW>")
    assert row is not None
    types = {f.name: f.type for f in row.fields}
    _check_nested(field, "nested-key", options.nested_key, types)
    _check_nested(field, "nested-sequence-field", options.nested_sequence_fields, types)
    for column in options.nested_sequence_fields:
        if types[column].is_nested:
            raise ConfigError(
                f"option 'fields.{field.name}.nested-sequence-field': {column!r} has no order; name an atomic field"
            )
    strategy = options.nested_key_null_strategy
    return nested_rows(field.name, row, options.nested_key, strategy, options.nested_sequence_fields)


def _check_nested(field: DataField, option: str, names: tuple[str, ...], types: Mapping[str, DataType]) -> None:
    for name in names:
        if name not in types:
            raise ConfigError(
                f"option 'fields.{field.name}.{option}': {name!r} is no field of the rows; they are: {', '.join(types)}"
            )


def _nested_update(field: DataField, options: FieldOptions) -> ColumnFunction:
    rows = _nested_rows("nested_update", field, options)
    if rows.sequence and not rows.key:
        raise ConfigError(
            f"option 'fields.{field.name}.nested-sequence-field' requires 'fields.{field.name}.nested-key'; set it"
        )
    limit = NO_LIMIT if options.count_limit is None else options.count_limit
    return NestedUpdate(field.name, field.type, rows, limit)


def _nested_partial_update(field: DataField, options: FieldOptions) -> ColumnFunction:
    if not options.nested_key:
        raise ConfigError(
            f"column {field.name!r}: aggregate function 'nested_partial_update' requires "
            f"'fields.{field.name}.nested-key'; set it"
        )
    return NestedPartialUpdate(field.name, field.type, _nested_rows("nested_partial_update", field, options))


def _bitmap(bits: int) -> Maker:
    def make(field: DataField, options: FieldOptions) -> ColumnFunction:
        _check(field.type.root is Root.VARBINARY, f"rbm{bits}", field, "VARBINARY")
        return BitmapUnion(field.name, field.type, bits)

    return make


def _sketch(name: str) -> Maker:
    def make(field: DataField, options: FieldOptions) -> ColumnFunction:
        _check(field.type.root is Root.VARBINARY, name, field, "VARBINARY")
        check_installed(field.name, name)
        return SketchUnion(field.name, field.type, name)

    return make


def _any_type(function: type[ColumnFunction]) -> Maker:
    return lambda field, options: function(field.name, field.type)


_FUNCTIONS: Mapping[str, Maker] = {
    "bool_and": _boolean("bool_and", is_largest=False),
    "bool_or": _boolean("bool_or", is_largest=True),
    "collect": _collect,
    "count": _count,
    "first_non_null_value": _any_type(FirstNonNullValue),
    "first_not_null_value": _any_type(FirstNonNullValue),
    "first_value": _any_type(FirstValue),
    "hll_sketch": _sketch("hll_sketch"),
    "last_non_null_value": _any_type(LastNonNullValue),
    "last_value": _any_type(LastValue),
    "listagg": _listagg,
    "max": _extreme("max", is_largest=True),
    "merge_map": _merge_map,
    "merge_map_with_keytime": _merge_map_with_keytime,
    "min": _extreme("min", is_largest=False),
    "nested_partial_update": _nested_partial_update,
    "nested_update": _nested_update,
    "primary-key": _any_type(PrimaryKey),
    "product": _product,
    "rbm32": _bitmap(32),
    "rbm64": _bitmap(64),
    "sum": _sum,
    "theta_sketch": _sketch("theta_sketch"),
}
FUNCTION_NAMES = tuple(_FUNCTIONS)
