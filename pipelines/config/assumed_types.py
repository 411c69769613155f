"""Types for columns that a pipeline file names without declaring them, so that its table options can be checked.

A column gets a type that the options about it take: mistakes in types that the file does not declare show when the
table is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from paimon_table.file_index.index_options import BLOOM_FILTER_COLUMNS
from paimon_table.options.field_options import field_option
from paimon_table.options.names import (
    AGGREGATE_FUNCTION,
    DEFAULT_AGGREGATE_FUNCTION,
    NESTED_KEY,
    NESTED_SEQUENCE_FIELD,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
    TS_FIELD,
)
from paimon_table.options.option_facts import columns_named_by
from paimon_table.types import DataType, parse_type, string


def assumed_columns(options: Mapping[str, str]) -> dict[str, DataType]:
    """The columns that options refer to, with types that they take."""
    return {name: assumed_type(name, options) for name in _columns_in(options)}


def assumed_type(column: str, options: Mapping[str, str]) -> DataType:
    """A type that the options about ``column`` take."""
    for name in (SEQUENCE_FIELD, ROWKIND_FIELD):
        if column in columns_named_by(name, options.get(name, "")):
            return string()
    if f"{column}[" in options.get(BLOOM_FILTER_COLUMNS.name, ""):
        return parse_type("MAP<STRING, STRING>")
    function = options.get(field_option(column, AGGREGATE_FUNCTION), options.get(DEFAULT_AGGREGATE_FUNCTION, ""))
    make = _TYPES.get(function)
    return string() if make is None else make(column, options)


def _columns_in(options: Mapping[str, str]) -> Iterator[str]:
    for name, value in options.items():
        yield from columns_named_by(name, value)


def _always(text: str) -> Callable[[str, Mapping[str, str]], DataType]:
    return lambda column, options: parse_type(text)


def _array_of_rows(column: str, options: Mapping[str, str]) -> DataType:
    named = [
        name.strip()
        for option in (NESTED_KEY, NESTED_SEQUENCE_FIELD)
        for name in options.get(field_option(column, option), "").split(",")
        if name.strip()
    ]
    fields = ", ".join(f"`{name}` STRING" for name in dict.fromkeys((*named, "any other field")))
    return parse_type(f"ARRAY<ROW<{fields}>>")


def _map_of_rows(column: str, options: Mapping[str, str]) -> DataType:
    time = options.get(field_option(column, TS_FIELD), "time")
    return parse_type(f"MAP<STRING, ROW<`any other field` STRING, `{time}` STRING>>")


_TYPES: Mapping[str, Callable[[str, Mapping[str, str]], DataType]] = {
    "sum": _always("INT"),
    "product": _always("INT"),
    "count": _always("BIGINT"),
    "bool_and": _always("BOOLEAN"),
    "bool_or": _always("BOOLEAN"),
    "collect": _always("ARRAY<STRING>"),
    "merge_map": _always("MAP<STRING, STRING>"),
    "merge_map_with_keytime": _map_of_rows,
    "nested_update": _array_of_rows,
    "nested_partial_update": _array_of_rows,
    "rbm32": _always("VARBINARY(2147483647)"),
    "rbm64": _always("VARBINARY(2147483647)"),
    "hll_sketch": _always("VARBINARY(2147483647)"),
    "theta_sketch": _always("VARBINARY(2147483647)"),
}
"""What a function takes; the others take texts."""
