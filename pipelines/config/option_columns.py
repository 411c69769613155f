"""Columns that options and keys name: what looks like a slip of a column that the file states elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator

from paimon_table.nearest_name import misspelt_column
from paimon_table.options.option_facts import columns_named_by
from pipelines.config.table_rules import TargetRule


def misspelt_columns(rule: TargetRule) -> Iterator[tuple[str, str]]:
    """Yields (option, note) for columns that the file does not declare and that resemble a declared one.

    Only the events show all columns: a table that lacks one is refused when it is created.
    """
    stated = {
        *rule.column_types,
        *rule.columns.computed,
        *(rule.primary_key or ()),
        *rule.partition_by,
        *dict(rule.own_columns),
    }
    for name, value in rule.options.items():
        for column in dict.fromkeys(columns_named_by(name, value)):
            meant = None if column in stated else misspelt_column(column, stated)
            if meant is not None:
                yield (
                    name,
                    f"option '{name}' names column {column!r}; did you mean {meant!r}? Declare {column!r} under"
                    " columns.types if there are both",
                )


def lacking_columns(rule: TargetRule) -> Iterator[tuple[str, str]]:
    """Yields (option, problem) for columns that the rule leaves out or renames; other rules may write a joint table."""
    own = dict(rule.own_columns)
    for option, value in () if rule.merge_sources else rule.options.items():
        for name in dict.fromkeys(columns_named_by(option, value)):
            why = None if name in own else rule.columns.lacks(name)
            if why is not None:
                yield option, f"option '{option}': {why}"


_EXPRESSION = re.compile(r"\w+\s*\(.*\)")
"""A name that other tools would evaluate: ``date(placed_at)``."""


def expressions_in_keys(rule: TargetRule) -> Iterator[tuple[str, str]]:
    """Yields (`primary_key` or `partition_by`, problem) for computed columns: a key takes only columns of the source.

    If the source has a column of that name, declare it.
    """
    for key, columns in (("primary_key", rule.primary_key or ()), ("partition_by", rule.partition_by)):
        for column in columns:
            if column not in rule.column_types and _EXPRESSION.fullmatch(column):
                yield (
                    key,
                    f"{column!r} is an expression, and a key accepts only column names: compute a column under "
                    "`columns.add` and name it here",
                )


def misspelt_keys(rule: TargetRule) -> Iterator[tuple[str, str]]:
    """Yields (`primary_key` or `partition_by`, note) for columns that are probably misspelt.

    Only the events show all columns: a table that lacks one is refused when it is created.
    """
    for key, columns in (("primary_key", rule.primary_key or ()), ("partition_by", rule.partition_by)):
        for column in columns:
            if column in rule.column_types or column in rule.columns.computed:
                continue
            meant = misspelt_column(column, rule.column_types)
            if meant is not None and not _EXPRESSION.fullmatch(column):
                yield (
                    key,
                    f"{column!r} is not declared under columns.types; did you mean {meant!r}? Declare it there if there"
                    " are both",
                )
