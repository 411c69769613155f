"""Types for columns that a pipeline file names without declaring them, so that its table options can be checked.

A column gets a type that its options accept. Mistakes in types that the file does not declare show when the table is
created.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paimon_table.file_index.index_options import BLOOM_FILTER_COLUMNS
from paimon_table.options.field_options import field_option, readable_settings
from paimon_table.options.names import (
    AGGREGATE_FUNCTION,
    DEFAULT_AGGREGATE_FUNCTION,
    RECORD_TIME_FIELD,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
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
    if column == options.get(RECORD_TIME_FIELD):
        return parse_type("BIGINT")
    if f"{column}[" in options.get(BLOOM_FILTER_COLUMNS.name, ""):
        return parse_type("MAP<STRING, STRING>")
    function = options.get(field_option(column, AGGREGATE_FUNCTION), options.get(DEFAULT_AGGREGATE_FUNCTION, ""))
    if not function:
        return string()
    from paimon_table.merge.aggregate.registry import sample_type  # Arrow comes with the functions

    return sample_type(function, readable_settings(column, options))


def _columns_in(options: Mapping[str, str]) -> Iterator[str]:
    for name, value in options.items():
        yield from columns_named_by(name, value)
