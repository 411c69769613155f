"""Columns that a rule adds to a table that exists already: the time of deletes, and what orders rows and deletes."""

from __future__ import annotations

import logging

from paimon_table import AddColumn, Table
from paimon_table.errors import ConfigError
from paimon_table.types import sql
from pipelines.config.own_columns import ordering_own_column
from pipelines.config.table_rules import TargetRule
from sources.event_columns import TIME_TYPE
from sources.position_kinds import POSITION

log = logging.getLogger(__name__)


def with_deleted_at(rule: TargetRule, table: Table, identifier: str, pipeline: str, time_ms: int) -> Table:
    """The table with the column of ``history: soft_delete``; publishes a schema version for it. Idempotent."""
    name = rule.deleted_at
    if name is None:
        return table
    if not table.schema.has_column(name):
        log.info("pipeline %s: %s: column %s added, as `history: soft_delete` says", pipeline, identifier, name)
        return table.evolve([AddColumn(name, TIME_TYPE)], time_ms)
    check_deleted_at(rule, table, identifier)
    return table


def check_deleted_at(rule: TargetRule, table: Table, identifier: str) -> None:
    """ConfigError where a column of that name is of another type."""
    name = rule.deleted_at
    if name is None or not table.schema.has_column(name):
        return
    present = table.schema.field(name).type
    if present != TIME_TYPE:
        raise ConfigError(
            f"table {identifier} exists and has {name} as {sql(present)}; `history: soft_delete` stores"
            f" {sql(TIME_TYPE)} there: name another column (`history: {{soft_delete: {{column: ...}}}}`)"
        )


def with_order_of(rule: TargetRule, table: Table, identifier: str, pipeline: str, time_ms: int) -> Table:
    """The table with the columns of its order; publishes a schema version for them. Idempotent."""
    check_order_of(rule, table, identifier)
    missing = [(name, t) for name, t in rule.order_columns if not table.schema.has_column(name)]
    if not missing:
        return table
    names = ", ".join(name for name, _ in missing)
    older = "; the rows that are there count as older than every record to come" if rule.orders_by_position else ""
    log.info("pipeline %s: %s: columns %s added, as %s says%s", pipeline, identifier, names, _said_by(rule), older)
    return table.evolve([AddColumn(name, t) for name, t in missing], time_ms)


def check_order_of(rule: TargetRule, table: Table, identifier: str) -> None:
    """ConfigError where rows in the table have another order, or a column of that name holds something else."""
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
