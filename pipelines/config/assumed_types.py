"""The table that a rule would make, as far as its file shows it, so that its options can be checked.

A column that the file names without declaring it gets a type that its options accept. Mistakes in types that the file
does not declare show when the table is created.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paimon_table import TableSchema
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
from paimon_table.schema.schema_options import BUCKET_KEY
from paimon_table.types import DataField, DataType, Root, parse_type, string
from pipelines.config.table_rules import TargetRule
from sinks.exchange.version_columns import HISTORY_OPTION

_UNDECLARED_KEY = "key_of_the_messages"


def known_schema(rule: TargetRule, options: Mapping[str, str]) -> TableSchema:
    """A schema of the columns that the file names; the others are only known from the events."""
    if rule.versions is not None:
        options = {**options, HISTORY_OPTION: rule.versions.option_value}
    if rule.versions is not None and rule.primary_key:
        options = {**options, BUCKET_KEY.name: ",".join(n for n in rule.primary_key if n not in rule.partition_by)}
    bucket_key = tuple(options[BUCKET_KEY.name].split(",")) if BUCKET_KEY.name in options else ()
    primary_key = rule.primary_key or (*dict.fromkeys((*rule.partition_by, *bucket_key, _UNDECLARED_KEY)),)
    named = dict.fromkeys((*primary_key, *rule.partition_by), DataType(Root.INT))
    columns = {**assumed_columns(options), **named, **rule.column_types, **dict(rule.own_columns)}
    if rule.on_change is not None:
        primary_key = ()
    elif rule.versions is not None:
        primary_key += rule.versions.key
    for name in primary_key:
        columns[name] = columns[name].with_nullable(False)
    fields = tuple(DataField(i, name, type_) for i, (name, type_) in enumerate(columns.items()))
    return TableSchema(0, fields, len(fields) - 1, rule.partition_by, primary_key, options)


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
    from paimon_table.merge.aggregate.registry import function_class  # the functions load Arrow

    return function_class(function).sample_type(readable_settings(column, options))


def _columns_in(options: Mapping[str, str]) -> Iterator[str]:
    for name, value in options.items():
        yield from columns_named_by(name, value)
