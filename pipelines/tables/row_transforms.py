"""The transformation of a rule with expressions, masks or a filter, as a value for the tasks of a batch."""

from __future__ import annotations

from typing import Any

from paimon_table import Table
from paimon_table.types import DataType
from pipelines.config.column_rules import LastCharacters
from pipelines.config.row_rules import leaving_of, mask_key_of
from pipelines.config.table_rules import TargetRule
from pipelines.tables.column_layout import Layout, layout_of
from sources.decode_target import DecodeTarget
from sources.expressions.computed import computed_column, condition, masked_column
from sources.expressions.evaluation import Column
from sources.expressions.rule_words import OF_EVENTS, OF_PLACES, Leaving
from sources.expressions.transform import Transform, Unfed


def transform_of(rule: TargetRule, table: Table, ingested_ms: int, target: DecodeTarget) -> Transform:
    """The transform of rows of a source table, whose ``target`` still has the columns of the table.

    Raises ConfigError if rule and table do not fit.
    """
    layout, schema, traits = layout_of(rule, table.schema), table.schema, table.write_traits
    if layout.all_lacking:
        return Transform((), (), lacks_columns=True)
    columns: list[tuple[str, str | Column | Unfed]] = []
    for f in schema.fields:
        if f.name in dict(rule.own_columns):
            continue
        source = rule.columns.source_of(f.name)
        if source is not None and not rule.columns.leaves_out(source):
            columns.append((f.name, source))
        else:
            is_fed = f.name in rule.columns.masks or (f.name in rule.columns.expressions and not layout.lacking(f.name))
            columns.append((f.name, _column(layout, f.name, f.type) if is_fed else Unfed(f.type)))
    refused = traits.refused_deletes
    computed = {name for name, origin in columns if isinstance(origin, Column)}
    leaving = leaving_of(schema.primary_keys, table.options.merge_engine, table.options.changelog_producer)
    return Transform(
        columns=tuple(columns),
        primary_key=rule.row_key(schema.primary_keys),
        where=None if rule.where is None else condition(layout.where_place, rule.where, layout.types),
        leaving=leaving,
        has_whole_before=rule.before == "full",
        wants_update_before=traits.wants_update_before,
        needs_retracts=bool(traits.accumulating),
        refused_deletes=None if refused is None else refused.reason,
        unstorable={name: find for name, find in traits.unstorable.items() if name in computed},
        keeps_events=rule.on_change == "log",
        passed=target.own_columns,
        deleted_at=rule.deleted_at,
        sequence=target.sequence,
        hides_values=bool(rule.columns.mask),
        ingested_ms=ingested_ms,
    )


def _column(layout: Layout, name: str, t: DataType) -> Column:
    rule = layout.rule
    if name in rule.columns.masks:
        column, mask = rule.columns.masks[name]
        if layout.lacking(name):  # no record has shown a value to hide
            return Column("mask", (), (), t, "NULL")
        how: Any = mask.show_last if isinstance(mask, LastCharacters) else "redact"
        return masked_column(column, how, mask_key_of(rule, column), layout.types, t)
    text = rule.columns.expressions[name]
    return computed_column(layout.place_of(name), text, layout.types, t)


def tells_events(rule: TargetRule, transform: Transform) -> bool:
    """Whether the decoder must provide operations and times."""
    keyed_filter = rule.where is not None and transform.leaving is Leaving.DELETED and not transform.sequence
    return keyed_filter or bool(transform.metadata & (OF_EVENTS.keys() - OF_PLACES.keys()))


def tells_places(transform: Transform) -> bool:
    """Whether the decoder must provide the places of changes in the log of their source."""
    return bool(transform.metadata & OF_PLACES.keys())
