"""Columns that a rule adds to a table that exists already: the time of deletes, and what orders rows and deletes."""

from __future__ import annotations

from paimon_table import AddColumn, Table
from paimon_table.errors import ConfigError
from paimon_table.types import sql
from pipelines.config.own_columns import ordering_own_column
from pipelines.config.table_rules import TargetRule
from pipelines.tables.rule_changes import RuleChanges
from sources.event_columns import TIME_TYPE
from sources.position_kinds import POSITION


def with_deleted_at(rule: TargetRule, table: Table, by: RuleChanges) -> Table:
    """The table with the column of ``history: soft_delete``. Idempotent.

    ConfigError where a column of that name is of another type.
    """
    name = rule.deleted_at
    if name is None:
        return table
    if not table.schema.has_column(name):
        by.log.info(
            "pipeline %s: %s: column %s added, as `history: soft_delete` says", by.pipeline, by.identifier, name
        )
        return by.made(table, [AddColumn(name, TIME_TYPE)])
    present = table.schema.field(name).type
    if present != TIME_TYPE:
        raise ConfigError(
            f"table {by.identifier} exists and has {name} as {sql(present)}; `history: soft_delete` stores"
            f" {sql(TIME_TYPE)} there: name another column (`history: {{soft_delete: {{column: ...}}}}`)"
        )
    return table


def with_order_of(rule: TargetRule, table: Table, by: RuleChanges) -> Table:
    """The table with the columns of its order. Idempotent.

    ConfigError where its rows have another order, or a column of that name holds something else.
    """
    _check_order(rule, table, by.identifier)
    missing = [(name, t) for name, t in rule.order_columns if not table.schema.has_column(name)]
    if not missing:
        return table
    names = ", ".join(name for name, _ in missing)
    older = "; the rows that are there count as older than every record to come" if rule.orders_by_position else ""
    said = _said_by(rule)
    by.log.info("pipeline %s: %s: columns %s added, as %s says%s", by.pipeline, by.identifier, names, said, older)
    return by.made(table, [AddColumn(name, t) for name, t in missing])


def _check_order(rule: TargetRule, table: Table, identifier: str) -> None:
    problem = ordering_own_column(rule, table.schema.options)
    if problem is not None:
        raise ConfigError(f"table {identifier} exists: {problem}, or write into a new table (another `into`)")
    present = table.options.sequence_fields
    if not rule.orders_by_position:
        if POSITION in present:
            raise ConfigError(
                f"table {identifier} exists and is ordered by source positions; without them an older row that no"
                " compaction has met yet would win: set `order_by: source_position` in the rule, or write into a"
                " new table (another `into`, with `backfill: true`)"
            )
    elif present not in ((), (POSITION,)) and table.snapshots.latest_id() is not None:
        raise ConfigError(
            f"table {identifier} exists and its rows are ordered by 'sequence.field' = {','.join(present)}; `order_by:"
            " source_position` needs a new table (another `into`, with `backfill: true`)"
        )
    for name, t in rule.order_columns:
        if table.schema.has_column(name) and table.schema.field(name).type != t:
            raise ConfigError(
                f"table {identifier} exists and has {name} as {sql(table.schema.field(name).type)}; {_said_by(rule)}"
                f" stores {sql(t)} there: rename the column in the connector, and write into a new table (another"
                " `into`)"
            )


def _said_by(rule: TargetRule) -> str:
    """The words of the rule for which the table has columns of an order."""
    return "`order_by: source_position`" if rule.orders_by_position else "`where` with 'sequence.field'"
