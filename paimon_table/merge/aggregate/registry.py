"""Aggregate functions by name, bound to a column after checking that they take its type.

Implements the type checks of Paimon's aggregate functions, which Java makes when the first writer or reader opens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from paimon_table.errors import ConfigError
from paimon_table.merge.aggregate.collect import Collect
from paimon_table.merge.aggregate.column_function import ColumnFunction
from paimon_table.merge.aggregate.extremes import BooleanExtreme, Extreme
from paimon_table.merge.aggregate.function import AggregateFunction
from paimon_table.merge.aggregate.ignore_retract import IgnoreRetract
from paimon_table.merge.aggregate.listagg import ListAgg
from paimon_table.merge.aggregate.merge_map import MergeMap
from paimon_table.merge.aggregate.merge_map_with_keytime import MergeMapWithKeyTime
from paimon_table.merge.aggregate.nested_rows import NestedRows, nested_rows
from paimon_table.merge.aggregate.nested_update import NO_LIMIT, NestedPartialUpdate, NestedUpdate
from paimon_table.merge.aggregate.picked import FirstNonNullValue, FirstValue, LastNonNullValue, LastValue, PrimaryKey
from paimon_table.merge.aggregate.product import Product
from paimon_table.merge.aggregate.roaring import BitmapUnion
from paimon_table.merge.aggregate.sketches import SketchUnion, is_installed
from paimon_table.merge.aggregate.sum import Count, Sum
from paimon_table.options.field_options import FieldOptions, field_option, naming_option
from paimon_table.options.names import IGNORE_RETRACT, NESTED_KEY, NESTED_SEQUENCE_FIELD, TS_FIELD
from paimon_table.rows.numeric import NUMERIC
from paimon_table.rows.python_values import Identity, identity_of
from paimon_table.types import CHARACTERS, MAX_LENGTH, DataField, DataType, Root, arrow_type

Maker = Callable[[DataField, FieldOptions], ColumnFunction]


@dataclass(frozen=True, slots=True)
class _Registered:
    """The functions by name; the facts about a function are attributes of its class."""

    function: type[ColumnFunction]
    make: Maker
    """Binds the function to a column after checking that it takes its type."""


def aggregate_function(name: str, field: DataField, options: FieldOptions) -> AggregateFunction:
    """The function called ``name`` for the column; ``options`` are the column's options.

    Raises ConfigError for unknown names, for columns of a type that the function does not take, and for options that do
    not fit the column.
    """
    registered = _FUNCTIONS.get(name)
    if registered is None:
        raise ConfigError(
            f"column {field.name!r}: aggregate function {name!r} is unknown; use one of: {', '.join(FUNCTION_NAMES)}",
            option=naming_option(field.name, options),
            column=field.name,
        )
    function = registered.make(field, options)
    return IgnoreRetract(function) if options.ignore_retract else function


def function_class(name: str) -> type[ColumnFunction]:
    """The class of the function of that name, whose attributes are the facts about it; the base if there is none."""
    registered = _FUNCTIONS.get(name)
    return ColumnFunction if registered is None else registered.function


def functions_with(setting: str) -> tuple[str, ...]:
    """The names of the functions that use a setting of a column; empty if it is not a setting of functions."""
    if setting == IGNORE_RETRACT:
        return FUNCTION_NAMES
    return tuple(name for name, registered in _FUNCTIONS.items() if setting in registered.function.settings)


def _check(fits: bool, function: str, field: DataField, options: FieldOptions, wanted: str) -> None:
    if not fits:
        raise ConfigError(
            f"column {field.name!r}: aggregate function {function!r} takes {wanted}, not {field.type}; change the "
            f"column's type or fields.{field.name}.aggregate-function",
            option=naming_option(field.name, options),
            column=field.name,
        )


def _sum(field: DataField, options: FieldOptions) -> ColumnFunction:
    _check(field.type.root in NUMERIC, "sum", field, options, "a numeric type")
    return Sum(field.name, field.type)


def _product(field: DataField, options: FieldOptions) -> ColumnFunction:
    _check(field.type.root in NUMERIC, "product", field, options, "a numeric type")
    return Product(field.name, field.type)


def _count(field: DataField, options: FieldOptions) -> ColumnFunction:
    _check(field.type.root in (Root.INT, Root.BIGINT), "count", field, options, "INT or BIGINT")
    return Count(field.name, field.type)


def _extreme(name: str, is_largest: bool) -> Maker:
    def make(field: DataField, options: FieldOptions) -> ColumnFunction:
        _check(not field.type.is_nested, name, field, options, "a comparable type")
        return Extreme(field.name, field.type, name, is_largest)

    return make


def _boolean(name: str, is_largest: bool) -> Maker:
    def make(field: DataField, options: FieldOptions) -> ColumnFunction:
        _check(field.type.root is Root.BOOLEAN, name, field, options, "BOOLEAN")
        return BooleanExtreme(field.name, field.type, name, is_largest)

    return make


def _listagg(field: DataField, options: FieldOptions) -> ColumnFunction:
    is_string = field.type.root is Root.VARCHAR and field.type.length == MAX_LENGTH
    _check(is_string, "listagg", field, options, "STRING (VARCHAR without length)")
    return ListAgg(field.name, field.type, options.list_agg_delimiter, options.distinct)


def _collect(field: DataField, options: FieldOptions) -> ColumnFunction:
    _check(field.type.root is Root.ARRAY, "collect", field, options, "ARRAY")
    assert field.type.element is not None
    identity = identity_of(arrow_type(field.type.element))
    return Collect(field.name, field.type, options.distinct, identity, prepends_older=options.ignore_retract)


def _merge_map(field: DataField, options: FieldOptions) -> ColumnFunction:
    _check(field.type.root is Root.MAP, "merge_map", field, options, "MAP")
    return MergeMap(field.name, field.type, _key_identity(field))


def _merge_map_with_keytime(field: DataField, options: FieldOptions) -> ColumnFunction:
    name = "merge_map_with_keytime"
    _check(field.type.root is Root.MAP, name, field, options, "MAP")
    value = field.type.value
    fields = () if value is None or value.root is not Root.ROW else value.fields
    _check(len(fields) >= 2, name, field, options, "a MAP whose value type is a ROW of at least 2 fields")
    names = [f.name for f in fields]
    time = names[-1] if options.ts_field is None else options.ts_field
    if time not in names:
        option = field_option(field.name, TS_FIELD)
        raise ConfigError(
            f"option {option!r}: timestamp field {time!r} is not found in the ROW; its fields are: {', '.join(names)}",
            option=option,
            column=field.name,
        )
    time_at = names.index(time)
    _check(fields[time_at].type.root in CHARACTERS, name, field, options, f"rows whose time field {time!r} is a text")
    return MergeMapWithKeyTime(field.name, field.type, time_at, _key_identity(field))


def _key_identity(field: DataField) -> Identity | None:
    assert field.type.key is not None
    return identity_of(arrow_type(field.type.key))


def _nested_rows(name: str, field: DataField, options: FieldOptions) -> NestedRows:
    row = field.type.element if field.type.root is Root.ARRAY else None
    _check(row is not None and row.root is Root.ROW, name, field, options, "ARRAY<ROW>")
    assert row is not None
    types = {f.name: f.type for f in row.fields}
    _check_nested(field, NESTED_KEY, options.nested_key, types)
    _check_nested(field, NESTED_SEQUENCE_FIELD, options.nested_sequence_fields, types)
    for column in options.nested_sequence_fields:
        if types[column].is_nested:
            option = field_option(field.name, NESTED_SEQUENCE_FIELD)
            raise ConfigError(
                f"option {option!r}: {column!r} has no order; name an atomic field", option=option, column=field.name
            )
    strategy = options.nested_key_null_strategy
    return nested_rows(field.name, row, options.nested_key, strategy, options.nested_sequence_fields)


def _check_nested(field: DataField, option: str, names: tuple[str, ...], types: Mapping[str, DataType]) -> None:
    for name in names:
        if name not in types:
            stated = field_option(field.name, option)
            raise ConfigError(
                f"option {stated!r}: {name!r} is not a field of the rows; they are: {', '.join(types)}",
                option=stated,
                column=field.name,
            )


def _nested_update(field: DataField, options: FieldOptions) -> ColumnFunction:
    rows = _nested_rows("nested_update", field, options)
    if rows.sequence and not rows.key:
        option = field_option(field.name, NESTED_SEQUENCE_FIELD)
        raise ConfigError(
            f"option {option!r} requires {field_option(field.name, NESTED_KEY)!r}; set it",
            option=option,
            column=field.name,
        )
    limit = NO_LIMIT if options.count_limit is None else options.count_limit
    return NestedUpdate(field.name, field.type, rows, limit)


def _nested_partial_update(field: DataField, options: FieldOptions) -> ColumnFunction:
    if not options.nested_key:
        raise ConfigError(
            f"column {field.name!r}: aggregate function 'nested_partial_update' requires "
            f"{field_option(field.name, NESTED_KEY)!r}; set it",
            option=naming_option(field.name, options),
            column=field.name,
        )
    return NestedPartialUpdate(field.name, field.type, _nested_rows("nested_partial_update", field, options))


def _bitmap(bits: int) -> Maker:
    def make(field: DataField, options: FieldOptions) -> ColumnFunction:
        _check(field.type.root is Root.VARBINARY, f"rbm{bits}", field, options, "VARBINARY")
        return BitmapUnion(field.name, field.type, bits)

    return make


def _sketch(name: str) -> Maker:
    def make(field: DataField, options: FieldOptions) -> ColumnFunction:
        _check(field.type.root is Root.VARBINARY, name, field, options, "VARBINARY")
        if not is_installed():
            raise ConfigError(
                f"column {field.name!r}: aggregate function {name!r} needs the package datasketches; install "
                "tidemark-cdc[sketches]",
                option=naming_option(field.name, options),
                column=field.name,
            )
        return SketchUnion(field.name, field.type, name)

    return make


def _any_type(function: type[ColumnFunction]) -> _Registered:
    return _Registered(function, lambda field, options: function(field.name, field.type))


_FUNCTIONS: Mapping[str, _Registered] = {
    "bool_and": _Registered(BooleanExtreme, _boolean("bool_and", is_largest=False)),
    "bool_or": _Registered(BooleanExtreme, _boolean("bool_or", is_largest=True)),
    "collect": _Registered(Collect, _collect),
    "count": _Registered(Count, _count),
    "first_non_null_value": _any_type(FirstNonNullValue),
    "first_not_null_value": _any_type(FirstNonNullValue),
    "first_value": _any_type(FirstValue),
    "hll_sketch": _Registered(SketchUnion, _sketch("hll_sketch")),
    "last_non_null_value": _any_type(LastNonNullValue),
    "last_value": _any_type(LastValue),
    "listagg": _Registered(ListAgg, _listagg),
    "max": _Registered(Extreme, _extreme("max", is_largest=True)),
    "merge_map": _Registered(MergeMap, _merge_map),
    "merge_map_with_keytime": _Registered(MergeMapWithKeyTime, _merge_map_with_keytime),
    "min": _Registered(Extreme, _extreme("min", is_largest=False)),
    "nested_partial_update": _Registered(NestedPartialUpdate, _nested_partial_update),
    "nested_update": _Registered(NestedUpdate, _nested_update),
    "primary-key": _any_type(PrimaryKey),
    "product": _Registered(Product, _product),
    "rbm32": _Registered(BitmapUnion, _bitmap(32)),
    "rbm64": _Registered(BitmapUnion, _bitmap(64)),
    "sum": _Registered(Sum, _sum),
    "theta_sketch": _Registered(SketchUnion, _sketch("theta_sketch")),
}
FUNCTION_NAMES = tuple(_FUNCTIONS)
