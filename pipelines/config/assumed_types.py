"""Types for columns that a pipeline file names without declaring them, so that its table options can be checked.

A column gets a type that the options about it take: mistakes in types that the file does not declare show when the
table is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from paimon_table.types import DataType, parse_type, string

_BLOOM_FILTERS = "file-index.bloom-filter.columns"
_LISTS = (
    "sequence.field", "changelog-producer.row-deduplicate-ignore-fields", _BLOOM_FILTERS,
    "partial-update.remove-record-on-sequence-group",
)  # fmt: skip
"""Options whose values are column names, blanks around commas ignored."""

_DEFAULT_FUNCTION = "fields.default-aggregate-function"


def assumed_columns(options: Mapping[str, str]) -> dict[str, DataType]:
    """The columns that options refer to, with types that they take."""
    return {name: assumed_type(name, options) for name in _columns_in(options)}


def assumed_type(column: str, options: Mapping[str, str]) -> DataType:
    """A type that the options about ``column`` take."""
    sequence = [name.strip() for name in options.get("sequence.field", "").split(",")]
    if column in sequence or column == options.get("rowkind.field"):
        return string()
    if f"{column}[" in options.get(_BLOOM_FILTERS, ""):
        return parse_type("MAP<STRING, STRING>")
    function = options.get(f"fields.{column}.aggregate-function", options.get(_DEFAULT_FUNCTION, ""))
    make = _TYPES.get(function)
    return string() if make is None else make(column, options)


def _columns_in(options: Mapping[str, str]) -> Iterator[str]:
    for name, value in options.items():
        yield from columns_named_by(name, value)


def columns_named_by(name: str, value: str) -> tuple[str, ...]:
    """The columns that the option ``name`` = ``value`` refers to, blanks around commas left out."""
    texts: list[str] = []
    parts = name.split(".")
    if name in _LISTS:
        texts = [column.partition("[")[0] for column in value.split(",")]
    elif name == "rowkind.field":
        texts = [value]
    elif parts[0] == "fields" and len(parts) > 2:
        texts = parts[1].split(",") + (value.split(",") if parts[2:] == ["sequence-group"] else [])
    return tuple(text.strip() for text in texts if text.strip())


def _always(text: str) -> Callable[[str, Mapping[str, str]], DataType]:
    return lambda column, options: parse_type(text)


def _array_of_rows(column: str, options: Mapping[str, str]) -> DataType:
    named = [
        name.strip()
        for option in ("nested-key", "nested-sequence-field")
        for name in options.get(f"fields.{column}.{option}", "").split(",")
        if name.strip()
    ]
    fields = ", ".join(f"`{name}` STRING" for name in dict.fromkeys((*named, "any other field")))
    return parse_type(f"ARRAY<ROW<{fields}>>")


def _map_of_rows(column: str, options: Mapping[str, str]) -> DataType:
    time = options.get(f"fields.{column}.ts-field", "time")
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
