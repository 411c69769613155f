"""Whether a pipeline may write a table: an existing one, of an earlier run or another engine, or a new one.

The start checks rules against existing tables: users see a mismatch before the first record arrives.
"""

from __future__ import annotations

from collections.abc import Collection

from paimon_table import Table, TableName, TableSchema, validate_new_table, validate_table
from paimon_table.errors import ConfigError, TidemarkError
from paimon_table.surroundings import now_ms
from pipelines.config.config import PipelineConfig
from pipelines.config.config_checks import warn_once
from pipelines.config.kept_values import unreadable_values
from pipelines.config.table_rules import TargetRule
from pipelines.tables.added_columns import plan_deleted_at, plan_order
from pipelines.tables.declared_columns import plan_types
from pipelines.tables.earlier_rows import plan_words
from pipelines.tables.known_routes import agreed_rule, known_sources, possible_rules, rules_for
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.row_checks import plan_computed
from pipelines.tables.rule_options import plan_options
from pipelines.tables.rule_plan import RulePlan
from pipelines.tables.watermarks import check_event_time
from pipelines.tables.written_tables import WrittenTable
from sinks.exchange.version_columns import HISTORY_OPTION
from sources.event_columns import EVENT_NAMES


def check_keys(table: Table, identifier: str, rule: TargetRule) -> None:
    """Refuse a table whose keys, or mode, differ from the rule."""
    schema = table.schema
    _check_mode(table, identifier, rule)
    wanted = (rule.primary_key, rule.partition_by or None)
    present = (rule.row_key(schema.primary_keys), tuple(schema.partition_keys))
    for name, want, have in zip(("primary_key", "partition_by"), wanted, present, strict=True):
        if want and tuple(want) != have:
            stays = f"Set `{name}: [{', '.join(have)}]` in the rule" if have else f"Remove `{name}` from the rule"
            raise ConfigError(
                f"table {identifier} exists with {name} [{', '.join(have)}], the rule wants [{', '.join(want)}], "
                f"but the layout of its files depends on the existing value. {stays}, or write into a new table "
                "(another `into`, with `backfill: true` to fill it from the records that the topics hold)"
            )


def _check_mode(table: Table, identifier: str, rule: TargetRule) -> None:
    schema = table.schema
    wanted, kept = rule.versions and rule.versions.option_value, schema.options.get(HISTORY_OPTION)
    if wanted != kept:
        told = "does not keep versions of its rows" if kept is None else f"keeps versions of its rows ({kept})"
        says = "has no `history: scd2`" if wanted is None else f"says {wanted}"
        raise ConfigError(
            f"table {identifier} exists and {told}, and the rule {says}. Use the same setting, or write into a "
            "new table"
            " (another `into`, with `backfill: true` to fill it from the records that the topics hold)"
        )
    if rule.on_change is None and not schema.primary_keys:
        raise ConfigError(
            f"table {identifier} exists and has no primary key. Set `mode: append` in the rule to add rows to it, or"
            " write into a new table (another `into`)"
        )
    if rule.on_change is not None and schema.primary_keys:
        raise ConfigError(
            f"table {identifier} exists with primary key ({', '.join(schema.primary_keys)}), and the rule has `mode:"
            " append`; remove the mode, or write into a new table (another `into`)"
        )
    for name, type_ in rule.event_columns:
        present = schema.field(name).type if schema.has_column(name) else None
        if present != type_:
            found = "has no such column" if present is None else f"has it as {present}"
            raise ConfigError(
                f"table {identifier} exists; `on_change: log` stores {name} {type_} with every event, and the table"
                f" {found}: write into a new table (another `into`)"
            )
    if rule.on_change in ("fail", "skip") and all(map(schema.has_column, EVENT_NAMES)):
        raise ConfigError(
            f"table {identifier} exists as a log of events with the columns {', '.join(EVENT_NAMES)}. Set `on_change:"
            " log` in the rule, or write into a new table (another `into`)"
        )


def check_same_mode(identifier: str, rule: TargetRule, other: TargetRule) -> None:
    """Refuse a second rule for a table that writes it in another way than the first one."""
    if not rule.writes_like(other):
        raise ConfigError(
            f"table {identifier} is written by rules of different `mode` or `on_change`. Use the same settings "
            "in all of them, or give each a separate table (another `into`)"
        )


def check_new(schema: TableSchema, identifier: str, pipeline: str) -> None:
    """Refuse to create a table that could not be written."""
    try:
        validate_new_table(schema)
    except ConfigError as error:
        raise error.told(f"pipeline {pipeline}: table {identifier} cannot be created: {error}") from error


def check_writable(table: Table, identifier: str) -> None:
    """Refuse a table of a kind that Tidemark cannot write; warn if other engines will fail with its options."""
    try:
        validate_table(table.schema)
    except ConfigError as error:
        raise error.told(
            f"table {identifier} exists and cannot be written: {error}; this table may need the engine that "
            "created it: write into a new table (another `into`)"
        ) from error
    for _, wrong in unreadable_values(table.schema.options):
        warn_once(
            "table %s exists with %s; set a valid value in the rule, or remove the option (ALTER TABLE ... RESET)",
            identifier,
            wrong,
        )


def rule_plan(config: PipelineConfig, rule: TargetRule, table: Table, identifier: str) -> RulePlan:
    """Give a table the columns, types and options that its rule determines without any record.

    Raises ConfigError if the rule belongs to another table, or if the table cannot follow it.
    """
    rule = rule.for_table(table.schema)
    check_keys(table, identifier, rule)
    plan = RulePlan(config.name, identifier, now_ms(), table)
    plan_types(rule, plan)
    if rule.changes_rows:
        plan_computed(rule, plan)
    plan_words((rule, *possible_rules(config, TableName.of(identifier))), plan)
    plan_deleted_at(rule, plan)
    plan_order(rule, plan)
    plan_options(rule, plan)
    check_event_time(rule, plan.table.schema, identifier)
    check_writable(plan.table, identifier)
    return plan


def rule_of_found(config: PipelineConfig, found: WrittenTable, table: Table) -> TargetRule | None:
    """The rule of a table that the pipeline has written; None if only its events show which rule it is."""
    topics = {topic for topic, _ in found.position.offsets}
    rules = [rule.for_table(table.schema) for rule in rules_for(config, found.name, sorted(topics))]
    if not rules:
        return None
    sources = known_sources(config, found.name, found.position.sources).values()
    return agreed_rule(rules) or (agreed_rule([rule.for_table(table.schema) for rule in sources]) if sources else None)


def check_own_tables(config: PipelineConfig, own: OwnTables, paused: Collection[str]) -> None:
    """Check the written tables of the pipeline, except ``paused`` ones, which stop no start.

    A table that cannot be read is left to the start, which continues without it.
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
            rule_plan(config, rule, table, str(found.name))


def check_tables_of_others(config: PipelineConfig, own: OwnTables) -> None:
    """Check the tables that rules name without placeholders and that the pipeline has not written yet.

    An unreadable table is left to its first record.
    """
    named = [rule for rule in config.tables if rule.names_one_table]
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
            rule_plan(config, config.target_rule(rule), table, str(name))
