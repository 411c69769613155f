"""Rules with expressions, masks or a filter against a table: checked when it is made or opened."""

from __future__ import annotations

from paimon_table import AddColumn, SchemaChange, TableSchema, WidenColumn
from paimon_table.errors import ConfigError, SchemaChangeRefused
from paimon_table.types import DataType, sql, string
from pipelines.config.row_rules import row_problems
from pipelines.config.table_rules import TargetRule
from pipelines.tables.column_changes import told, widened
from pipelines.tables.column_layout import Layout, hidden_changes, layout_of
from pipelines.tables.rule_plan import RulePlan
from sinks.commit.positions import newest_position
from sources.column_sources import OPTION, ColumnSources


def check_rows(rule: TargetRule, schema: TableSchema) -> None:
    """Raise ConfigError for a rule whose rows the table cannot store."""
    for _, text in row_problems(rule, rule.row_key(schema.primary_keys), schema.options):
        raise ConfigError(f"rule into {rule.into}: {text}")


def plan_computed(rule: TargetRule, plan: RulePlan) -> None:
    """Plan the computed columns whose inputs are known.

    Expressions over columns that no record has shown are left to the events. Raises ConfigError if expressions do not
    fit the table's columns.
    """
    schema = plan.table.schema
    check_rows(rule, schema)
    layout = layout_of(rule, schema, _stored_so_far(rule, plan))
    changes = [*_changes(layout, schema), *hidden_changes(layout, schema)]
    if not changes:
        return
    try:
        plan.add(changes, f"pipeline {plan.pipeline}: {plan.identifier}: {told(changes, schema)}, as its rule says")
    except SchemaChangeRefused as error:
        raise ConfigError(f"pipeline {plan.pipeline}: table {plan.identifier}: {error}") from error


def _stored_so_far(rule: TargetRule, plan: RulePlan) -> dict[str, DataType]:
    """The columns of the source that the table has stored, and whose mask or expression begins: their types.

    So the first record that does not send the value counts as such, and the row keeps what it has.
    """
    schema = plan.table.schema
    if newest_position(plan.table.snapshots, plan.pipeline) is None:
        return {}
    made_by = ColumnSources.parsed(schema.options.get(OPTION)).made_by
    begun = {name: origin for name, origin in rule.columns.computed.items() if name not in made_by}
    return {o: schema.field(n).type for n, o in begun.items() if o is not None and schema.has_column(n)}


def _changes(layout: Layout, schema: TableSchema) -> list[SchemaChange]:
    changes: list[SchemaChange] = []
    rule = layout.rule
    masked = {n: rule.column_types.get(n, string()) for n in rule.columns.masked_as_text if schema.has_column(n)}
    for name, t in {**masked, **layout.computed}.items():
        if not schema.has_column(name):
            changes.append(AddColumn(name, t))
            continue
        present = schema.field(name).type
        wider = widened(present, t)
        if wider is None and name in masked:
            raise ConfigError(
                f"rule into {rule.into}: column {name!r} is {sql(present)} there, and its mask gives"
                f" {sql(t)}. Write into a new table (another `into`, with `backfill: true`), or use redact"
            )
        if wider is None and name not in layout.rule.column_types:
            raise ConfigError(
                f"rule into {layout.rule.into}: column {name!r} is {sql(present)} there, and its expression gives"
                f" {sql(t)}. Cast it to the table's type, declare `{name}: {sql(present.with_nullable(True))}` under"
                " columns.types, or write into a new table (another `into`, with `backfill: true`)"
            )
        if wider is not None and wider != present:
            changes.append(WidenColumn(name, wider))
    return changes
