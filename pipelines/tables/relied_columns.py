"""Columns that a rule relies on, where the source has them no more: what would go wrong without a word.

A lost column gives NULL. That is right for a column that is stored, and wrong for one that says what becomes of a row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from paimon_table import Table
from paimon_table.errors import SchemaChangeRefused
from paimon_table.options.names import SEQUENCE_FIELD
from pipelines.config.table_rules import TargetRule
from pipelines.tables.column_layout import layout_of
from pipelines.tables.observed_columns import Seen
from sources.changes import NewestRow, Observation, ShownSchema, SourceTable


def check_relied(rule: TargetRule, table: Table, lost: Sequence[str], topic: str) -> None:
    """SchemaChangeRefused for a lost column of the source that ``where`` or the order of changes needs."""
    relied = _relied(rule, table)
    name = next((name for name in lost if name in relied), None)
    if name is None:
        return
    place, follows = relied[name]
    raise SchemaChangeRefused(
        f"{topic}: its events have no column {name} any more, and {place} of the table needs it: {follows}. If it was"
        f" renamed in the source, name the new column in the rule and resume, or write into a new table (another `into`"
        f" with `backfill: true`). If rows without {name} are right, declare its type under columns.types"
    ).without_values()


def _relied(rule: TargetRule, table: Table) -> Mapping[str, tuple[str, str]]:
    """By the names in the source: what needs the column, and what would become of rows without it."""
    options, columns = table.context.options, rule.columns
    found: dict[str, tuple[str, str]] = {}
    named = [(SEQUENCE_FIELD, options.sequence_fields)]
    named += [("sequence-group", group.sequence) for group in options.field_options.sequence_groups]
    for place, names in named:
        for name in names:
            found[columns.source_of(name) or name] = (place, "new rows would lose against older ones")
    if rule.where is not None:
        from sources.expressions.computed import inputs

        names = inputs(rule.where, layout_of(rule, table.schema).types)
        found |= dict.fromkeys(names, ("`where`", "without it no row fulfils the condition as before"))
    return found


def check_masked(
    rule: TargetRule, source: SourceTable, seen: Seen, observations: Iterable[Observation], newest: Iterable[NewestRow]
) -> None:
    """SchemaChangeRefused for a new column in rows that have lost a masked one: it may be its new name.

    Embedded schemas tell it of each row. Of rows without one the newest of a partition tells.
    """
    for schema in seen.schemas:
        shown = dict(schema.columns)
        lost = [name for name in rule.columns.mask if name not in shown]
        if lost:
            _refuse_open(rule, source.topic, lost[0], [name for name in seen.columns if name in shown])
    lacking = {row.partition: row.absent for row in newest if row.source == source and row.is_whole}
    for one in observations:
        gone = [name for name in rule.columns.mask if name in lacking.get(one.partition, ())]
        if one.source == source and gone and not one.schemas:
            _refuse_open(rule, source.topic, gone[0], [column.name for column in one.columns])


def check_first_masked(rule: TargetRule, topic: str, schemas: Sequence[ShownSchema]) -> None:
    """The same for a table that is still to be made of records with several schemas."""
    shown = [dict(schema.columns) for schema in schemas]
    for name in rule.columns.mask:
        known = {column for columns in shown if name in columns for column in columns}
        if known:
            _refuse_open(rule, topic, name, [c for columns in shown if name not in columns for c in columns], known)


def _refuse_open(rule: TargetRule, topic: str, masked: str, new: Iterable[str], known: Collection[str] = ()) -> None:
    columns = rule.columns
    for name in new:
        stored = columns.stored_as(name)
        if name not in known and stored is not None and stored not in rule.column_types:
            raise SchemaChangeRefused(
                f"{topic}: column {name} is new in records that have no column {masked} any more, which columns.mask"
                f" hides: if it is its new name, its values would be open. Name it under columns.mask, or under"
                f" columns.drop; if it is another column, declare its type under columns.types. Then resume"
            ).without_values()
