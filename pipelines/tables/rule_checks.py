"""Rules against tables that exist already, told at the start: nobody waits for a record to hear of it."""

from __future__ import annotations

from collections.abc import Collection

from paimon_table import Table, TableName
from paimon_table.errors import TidemarkError
from pipelines.config.config import PipelineConfig
from pipelines.config.table_rules import TargetRule
from pipelines.tables.declared_types import check_types_of
from pipelines.tables.known_routes import agreed_rule, known_sources, rules_for
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.row_checks import check_computed
from pipelines.tables.rule_options import check_options_of
from pipelines.tables.writable_tables import check_keys, check_writable
from pipelines.tables.written_tables import WrittenTable


def check_rule(rule: TargetRule, table: Table, identifier: str, pipeline: str) -> None:
    """ConfigError when a table cannot be written as its rule says; changes nothing."""
    rule = rule.for_table(table.schema)
    check_keys(table, identifier, rule)
    check_types_of(rule, table, identifier, pipeline)
    check_options_of(rule, table, identifier, pipeline)
    if rule.changes_rows:
        check_computed(rule, table.schema)
    check_writable(table, identifier)


def rule_of_found(config: PipelineConfig, found: WrittenTable, table: Table) -> TargetRule | None:
    """The rule of a table that the pipeline has written; None where only its events tell which of several it is."""
    topics = {topic for topic, _ in found.position.offsets}
    rules = [rule.for_table(table.schema) for rule in rules_for(config, found.name, sorted(topics))]
    if not rules:
        return None
    sources = known_sources(config, found.name, found.position.sources).values()
    return agreed_rule(rules) or (agreed_rule([rule.for_table(table.schema) for rule in sources]) if sources else None)


def check_own_tables(config: PipelineConfig, own: OwnTables, paused: Collection[str]) -> None:
    """Check the tables that the pipeline has written but those that are ``paused``, which stop no start.

    What cannot be read is left to the start, which goes on without such a table.
    """
    for found in own.written(lambda _name, _error: None):
        if str(found.name) in paused:
            continue
        try:
            table = own.catalog.load(found.name)
        except TidemarkError:
            continue
        rule = rule_of_found(config, found, table)
        if rule is not None:
            check_rule(rule, table, str(found.name), config.name)


def check_tables_of_others(config: PipelineConfig, own: OwnTables) -> None:
    """Check the tables that rules name without placeholders and that the pipeline has not written yet.

    What cannot be read is left to the table's first record.
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
