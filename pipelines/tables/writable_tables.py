"""Whether a pipeline may write a table: one that exists, made by an earlier run or another engine, or a new one."""

from __future__ import annotations

from paimon_table import Table, TableSchema, validate_table
from paimon_table.errors import ConfigError
from pipelines.config.table_rules import TargetRule


def check_keys(table: Table, identifier: str, rule: TargetRule) -> None:
    """Refuse a table without the keys that the rule states, or without any primary key."""
    schema = table.schema
    if not schema.primary_keys:
        raise ConfigError(
            f"table {identifier} exists and has no primary key: append tables are not supported yet;"
            " write into a new table (another `into`)"
        )
    wanted = (rule.primary_key, rule.partition_by or None)
    present = (tuple(schema.primary_keys), tuple(schema.partition_keys))
    for name, want, have in zip(("primary_key", "partition_by"), wanted, present, strict=True):
        if want and tuple(want) != have:
            raise ConfigError(
                f"table {identifier} exists with {name} [{', '.join(have)}], the rule wants [{', '.join(want)}];"
                " write into a new table or change the rule"
            )


def check_new(schema: TableSchema, identifier: str, pipeline: str) -> None:
    """Refuse to make a table that could not be written."""
    try:
        validate_table(schema)
    except ConfigError as error:
        raise error.told(f"pipeline {pipeline}: table {identifier} cannot be made: {error}") from error


def check_writable(table: Table, identifier: str) -> None:
    """Refuse a table of a kind that Tidemark cannot write, such as one with dynamic buckets of Java's."""
    try:
        validate_table(table.schema)
    except ConfigError as error:
        raise error.told(
            f"table {identifier} exists and cannot be written: {error}; this table may need the engine that made it:"
            " write into a new table (another `into`)"
        ) from error
