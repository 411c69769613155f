"""The column with the time of deletes in a table that exists already."""

from __future__ import annotations

import logging

from paimon_table import AddColumn, Table
from paimon_table.errors import ConfigError
from paimon_table.types import sql
from pipelines.config.table_rules import TargetRule
from sources.event_columns import TIME_TYPE

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
