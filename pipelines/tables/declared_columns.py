"""Columns that a rule declares: whether the events of a source table have them, and their types in existing tables.

The rule decides, as with options: a column becomes as wide as both types need, if Paimon's ALTER TABLE allows it. A
type that the table's column cannot become without loss is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from paimon_table import Table, WidenColumn
from paimon_table.errors import ConfigError, SchemaChangeRefused
from paimon_table.nearest_name import misspelt_column
from paimon_table.types import DataType, sql
from pipelines.config.table_rules import TargetRule
from pipelines.tables.column_changes import told, widened
from pipelines.tables.rule_changes import RuleChanges

log = logging.getLogger(__name__)


def check_declared(rule: TargetRule, columns: Collection[str], topic: str, identifier: str, is_new: bool) -> None:
    """Warn of declared columns that are not among the ``columns`` of the events: they would be NULL in every row.

    Where a new table would get a misspelt column, and no other source table is to bring it, ConfigError instead. Where
    several source tables meet, each brings a part: only what looks misspelt is reported.
    """
    for name in rule.column_types:
        if name in columns or name in rule.columns.paths:
            continue
        meant = misspelt_column(name, (c for c in columns if c not in rule.column_types))
        text = f"table {identifier}: column {name!r} is declared under columns.types, but the events of {topic} lack it"
        if rule.merge_sources is not None and meant is None:  # another source table may bring it
            continue
        if meant is not None and is_new and rule.merge_sources is None:
            raise ConfigError(f"{text}; did you mean {meant!r}? They have: {', '.join(columns)}")
        hint = "" if meant is None else f"; did you mean {meant!r}?"
        log.warning("%s: it stays NULL until a source sends it%s", text, hint)


def with_types_of(rule: TargetRule, table: Table, by: RuleChanges) -> Table:
    """The table with columns as wide as the rule declares them. Idempotent.

    Columns that the table does not have yet are left to the events. Raises ConfigError for types that its columns
    cannot take.
    """
    changes: list[WidenColumn] = []
    for name, declared in rule.declared(table.schema.column_names).items():
        if not table.schema.has_column(name):
            continue
        present = table.schema.field(name).type
        wider = widened(present, declared)
        if wider is None:
            raise ConfigError(_refusal(rule, by, name, present, declared, "values would be lost between the two"))
        if wider != present:
            changes.append(WidenColumn(name, wider))
        elif sql(declared.with_nullable(True)) != sql(present.with_nullable(True)):  # whatever ids nested fields have
            by.log.warning(
                "%s: column %r is declared as %s and stays %s, which holds all of its values; declare that",
                by.identifier,
                name,
                sql(declared),
                sql(present),
            )
    for change in changes:
        table = _changed(rule, table, change, by)
    return table


def _changed(rule: TargetRule, table: Table, change: WidenColumn, by: RuleChanges) -> Table:
    present = table.schema.field(change.name).type
    try:
        widened = by.made(table, [change])
    except (ConfigError, SchemaChangeRefused) as error:
        declared = rule.declared([change.name])[change.name]
        raise ConfigError(_refusal(rule, by, change.name, present, declared, str(error))) from error
    by.log.info("pipeline %s: %s: %s, as its rule declares", by.pipeline, by.identifier, told([change], table.schema))
    return widened


def _refusal(rule: TargetRule, by: RuleChanges, name: str, present: DataType, declared: DataType, reason: str) -> str:
    return (
        f"pipeline {by.pipeline}: the rule into {rule.into} declares column {name!r} as {sql(declared)}, but in table"
        f" {by.identifier} it is {sql(present)} and cannot become that: {reason}; nothing was written: declare"
        f" `{name}: {sql(present)}` under columns.types, or write into a new table (another `into`)"
    )
