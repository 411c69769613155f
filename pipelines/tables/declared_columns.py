"""Columns that a rule declares: whether the events of a source table have them, and their types in existing tables.

The rule decides, as with options: a column becomes as wide as both types need, if Paimon's ALTER TABLE allows it. A
type that the table's column cannot become without loss is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from paimon_table import WidenColumn
from paimon_table.errors import ConfigError, SchemaChangeRefused
from paimon_table.nearest_name import misspelt_column
from paimon_table.types import sql
from pipelines.config.table_rules import TargetRule
from pipelines.tables.column_changes import told, widened
from pipelines.tables.rule_plan import RulePlan

log = logging.getLogger(__name__)


def check_declared(rule: TargetRule, columns: Collection[str], topic: str, identifier: str, is_new: bool) -> None:
    """Warn of declared columns that are not among the ``columns`` of the events: they would be NULL in every row.

    If a new table would get a misspelt column, which no other source table can bring, raises ConfigError. If several
    source tables feed the table, each has a part of the columns: only names that look misspelt are reported.
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


def plan_types(rule: TargetRule, plan: RulePlan) -> None:
    """Make columns as wide as the rule declares them; events add the columns that the table lacks.

    Raises ConfigError for types that the table's columns cannot take.
    """
    schema = plan.table.schema
    for name, declared in rule.declared(schema.column_names).items():
        if not schema.has_column(name):
            continue
        present = schema.field(name).type
        wider = widened(present, declared)
        if wider == present:
            if sql(declared.with_nullable(True)) != sql(present.with_nullable(True)):  # whatever ids nested fields have
                plan.warn(
                    f"{plan.identifier}: column {name!r} is declared as {sql(declared)} and stays {sql(present)}, which"
                    " holds all its values; declare that type"
                )
            continue
        try:
            if wider is None:
                raise ConfigError("values would be lost between the two")
            changes = [WidenColumn(name, wider)]
            line = f"pipeline {plan.pipeline}: {plan.identifier}: {told(changes, schema)}, as the rule declares"
            plan.add(changes, line)
        except (ConfigError, SchemaChangeRefused) as error:
            raise ConfigError(
                f"pipeline {plan.pipeline}: the rule into {rule.into} declares column {name!r} as {sql(declared)}, but"
                f" in table {plan.identifier} it is {sql(present)} and cannot become that: {error}. Nothing was"
                f" written: declare `{name}: {sql(present)}` under columns.types, or write into a new table (another"
                " `into`)"
            ) from error
