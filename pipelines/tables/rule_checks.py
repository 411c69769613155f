"""Rules against tables that exist already, told at the start: nobody waits for a record to hear of it."""

from __future__ import annotations

from paimon_table import Table, TableName
from paimon_table.errors import TidemarkError
from pipelines.config.config import PipelineConfig
from pipelines.config.table_rules import TargetRule
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.rule_options import check_options_of
from pipelines.tables.writable_tables import check_keys, check_writable


def check_rule(rule: TargetRule, table: Table, identifier: str, pipeline: str) -> None:
    """ConfigError when a table cannot be written as its rule says; changes nothing."""
    rule = rule.for_table(table.schema)
    check_keys(table, identifier, rule)
    check_options_of(rule, table, identifier, pipeline)
    check_writable(table, identifier)


def check_tables_of_others(config: PipelineConfig, own: OwnTables) -> None:
    """Check the tables that rules name without placeholders and that the pipeline has not written yet.

    Those that it has written are opened at its start anyway. What cannot be read is left to the table's first record.
    """
    named = [rule for rule in config.tables if "{" not in rule.into]
    written = {*own.names()} if named else set()
    for rule in named:
        name = TableName.of(rule.into)
        if name in written:
            continue
        try:
            table = own.catalog.find(name)
        except TidemarkError:
            continue
        if table is not None:
            check_rule(config.target_rule(rule), table, str(name), config.name)
