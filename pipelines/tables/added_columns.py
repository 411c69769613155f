"""Columns that a rule adds to an existing table: the time of deletes, and the order of rows and deletes."""

from __future__ import annotations

from paimon_table import AddColumn, Table
from paimon_table.errors import ConfigError
from paimon_table.options.names import KEEP_DELETES
from paimon_table.types import sql
from pipelines.config.own_columns import ordering_own_column
from pipelines.config.table_rules import TargetRule
from pipelines.tables.rule_plan import RulePlan
from sources.event_columns import TIME_TYPE
from sources.position_kinds import POSITION


def plan_deleted_at(rule: TargetRule, plan: RulePlan) -> None:
    """Plan the column of ``history: soft_delete``. Raises ConfigError if a column of that name has another type."""
    name, schema = rule.deleted_at, plan.table.schema
    if name is None:
        return
    present = schema.field(name).type if schema.has_column(name) else None
    if present is None:
        line = f"pipeline {plan.pipeline}: {plan.identifier}: column {name} added, as `history: soft_delete` says"
        plan.add([AddColumn(name, TIME_TYPE)], line)
    elif present != TIME_TYPE:
        raise ConfigError(
            f"table {plan.identifier} exists and has {name} as {sql(present)}; `history: soft_delete` stores"
            f" {sql(TIME_TYPE)} there: name another column (`history: {{soft_delete: {{column: ...}}}}`)"
        )


def plan_order(rule: TargetRule, plan: RulePlan) -> None:
    """Plan the columns of the order of a table.

    Raises ConfigError if its rows have another order, or if a column of that name has another meaning.
    """
    _check_order(rule, plan.table, plan.identifier)
    missing = [(name, t) for name, t in rule.order_columns if not plan.table.schema.has_column(name)]
    if not missing:
        return
    names = ", ".join(name for name, _ in missing)
    older = "; existing rows are treated as older than every later record" if rule.orders_by_position else ""
    line = f"pipeline {plan.pipeline}: {plan.identifier}: columns {names} added, as {_said_by(rule)} says{older}"
    plan.add([AddColumn(name, t) for name, t in missing], line)


def _check_order(rule: TargetRule, table: Table, identifier: str) -> None:
    problem = ordering_own_column(rule, table.schema.options)
    if problem is not None:
        raise ConfigError(f"table {identifier} exists: {problem}, or write into a new table (another `into`)")
    present = table.options.sequence_fields
    if not rule.orders_by_position:
        if POSITION in present:
            raise ConfigError(
                f"table {identifier} exists and is ordered by source positions; without them, older rows that are "
                "not compacted yet would win. Set `order_by: source_position` in the rule, or write into a new "
                "table (another `into`, with `backfill: true`)"
            )
    elif present not in ((), (POSITION,)) and table.snapshots.latest_id() is not None:
        raise ConfigError(
            f"table {identifier} exists and its rows are ordered by 'sequence.field' = {','.join(present)}; `order_by:"
            " source_position` needs a new table (another `into`, with `backfill: true`)"
        )
    for name, t in rule.order_columns:
        if table.schema.has_column(name) and table.schema.field(name).type != t:
            raise ConfigError(
                f"table {identifier} exists and has {name} as {sql(table.schema.field(name).type)}, but "
                f"{_said_by(rule)} stores {sql(t)} there. Rename the column in the connector, and write into a new "
                "table (another `into`)"
            )


def _said_by(rule: TargetRule) -> str:
    """The part of the rule because of which the table has order columns, in words."""
    return "`order_by: source_position`" if rule.orders_by_position else f"'{KEEP_DELETES}'"
