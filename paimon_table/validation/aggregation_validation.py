"""Rules about aggregate functions, checked when a schema is created or changed.

Implements Paimon's checks of functions, their columns and their options. Java does most checks when the first writer or
reader opens.
"""

from __future__ import annotations

from paimon_table.errors import ConfigError
from paimon_table.options.field_options import AGGREGATING, field_option
from paimon_table.options.names import (
    AGGREGATE_FUNCTION,
    AGGREGATION_REMOVE_ON_DELETE,
    DEFAULT_AGGREGATE_FUNCTION,
    NESTED_KEY_NULL_STRATEGY,
)
from paimon_table.options.table_options import TableOptions
from paimon_table.schema.table_schema import TableSchema


def check_aggregation(schema: TableSchema, options: TableOptions) -> None:
    """Raises ConfigError for unknown functions, columns of a wrong type and options that contradict each other."""
    if options.merge_engine not in AGGREGATING:
        return
    _check_null_strategy(schema, options)
    if options.merge_engine == "aggregation":
        check_function_names(schema, options)
        _check_remove_on_delete(options)
        from paimon_table.merge.aggregation import aggregation  # loads Arrow: only for tables with functions

        aggregation(schema, options)


def check_function_names(schema: TableSchema, options: TableOptions) -> None:
    """Checks unused functions too, as Paimon does: the default function and the functions of key columns."""
    from paimon_table.merge.aggregate.registry import FUNCTION_NAMES

    named = {field_option(key, AGGREGATE_FUNCTION): options.field_options.of(key) for key in schema.primary_keys}
    functions = {option: given.aggregate_function for option, given in named.items()}
    functions[DEFAULT_AGGREGATE_FUNCTION] = options.default_aggregate_function
    for option, function in functions.items():
        if function is not None and function not in FUNCTION_NAMES:
            raise ConfigError(
                f"option {option!r}: aggregate function {function!r} is unknown; use one of: "
                f"{', '.join(FUNCTION_NAMES)}",
                option=option,
            )


def _check_null_strategy(schema: TableSchema, options: TableOptions) -> None:
    """An explicit strategy needs a nested key, even if it is the default strategy."""
    for column, given in options.field_options.by_column.items():
        name = field_option(column, NESTED_KEY_NULL_STRATEGY)
        if name in schema.options and given.aggregate_function == "nested_update" and not given.nested_key:
            raise ConfigError(
                f"option {name!r} requires 'fields.{column}.nested-key'; set it or remove the strategy", option=name
            )


def _check_remove_on_delete(options: TableOptions) -> None:
    if not options.aggregation_remove_record_on_delete:
        return
    for column, given in options.field_options.by_column.items():
        if given.ignore_retract:
            raise ConfigError(
                f"options 'aggregation.remove-record-on-delete' and 'fields.{column}.ignore-retract' have conflicting "
                "behavior; remove one of them",
                option=AGGREGATION_REMOVE_ON_DELETE,
            )
