"""Columns that a rule relies on and that the source no longer has: these would fail silently.

A lost column gives NULL. NULL is right for a stored column, and wrong for a column that determines the fate of a row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from paimon_table import Table
from paimon_table.errors import SchemaChangeRefused
from paimon_table.options.names import SEQUENCE_FIELD
from pipelines.config.column_rules import first_of
from pipelines.config.table_rules import TargetRule
from pipelines.tables.column_layout import layout_of, names_decoded
from pipelines.tables.merged_sources import fed_by, feeds_alone, source_words
from pipelines.tables.observed_columns import Seen
from sinks.commit.table_sink import TableSink
from sources.changes import ShownSchema, SourceTable
from sources.column_sources import OPTION as COLUMN_SOURCES
from sources.column_sources import ColumnSources


def check_relied(rule: TargetRule, table: Table, lost: Sequence[str], topic: str) -> None:
    """Raise SchemaChangeRefused for a lost column of the source that ``where`` or the order of changes needs."""
    relied = _relied(rule, table)
    name = next((name for name in lost if name in relied), None)
    if name is None:
        return
    place, follows = relied[name]
    raise SchemaChangeRefused(
        f"{topic}: its events no longer have column {name}, and {place} of the table needs it: {follows}. If it was"
        f" renamed in the source, name the new column in the rule and resume. Or write into a new table (another `into`"
        f" with `backfill: true`). If rows without {name} are right, declare its type under columns.types"
    ).without_values()


def awaited_columns(rule: TargetRule, table: Table, absent: Iterable[str]) -> dict[str, tuple[str, str]]:
    """The declared columns that records lack and ``where`` or the order of changes needs: they may still appear.

    Each with the part of the rule that needs the column, and the fate of rows without it.
    """
    relied = _relied(rule, table)
    return {name: relied[name] for name in absent if name in relied and rule.declares(name)}


def _relied(rule: TargetRule, table: Table) -> Mapping[str, tuple[str, str]]:
    """By source names: the part of the rule that needs the column, and the fate of rows without it."""
    options, columns = table.context.options, rule.columns
    found: dict[str, tuple[str, str]] = {}
    named = [(SEQUENCE_FIELD, options.sequence_fields)]
    named += [("sequence-group", group.sequence) for group in options.field_options.sequence_groups]
    for place, names in named:
        for name in names:
            found[columns.source_of(name) or name] = (place, "older rows would win over new ones")
    if rule.where is not None:
        from sources.expressions.computed import inputs

        names = inputs(rule.where, layout_of(rule, table.schema).types)
        found |= dict.fromkeys(names, ("`where`", "without it the condition no longer selects the same rows"))
    return found


def check_hidden(
    of_table: TargetRule,
    rule: TargetRule,
    sink: TableSink,
    source: SourceTable,
    seen: Seen,
    there: Collection[str],
    *,
    is_first: bool,
) -> None:
    """Raise SchemaChangeRefused for a new column in rows that have lost a hidden one: it may be its new name.

    A hidden column is masked or dropped. Every record with a new column shows its shape: by its embedded schema, or by
    its row, if that is whole. A hidden column counts if the table has or has had it, or if other rows here have it. The
    file may name one that never appeared, or that was dropped long ago. If several source tables feed the table, a
    column counts for those whose rows have had it. ``is_first``: there were no earlier rows of this source table;
    ``there`` are the hidden columns that some rows here have.
    """
    known = names_decoded(rule, sink.table)
    before = _there_before(of_table, rule, sink, source, known, is_first)
    _check_rows(rule, source.topic, seen, known, {*before, *there})


def _there_before(
    of_table: TargetRule,
    rule: TargetRule,
    sink: TableSink,
    source: SourceTable,
    known: Collection[str],
    is_first: bool,
) -> list[str]:
    """The hidden columns that earlier records of a source table had, as far as the table knows."""
    remembered = ColumnSources.parsed(sink.table.schema.options.get(COLUMN_SOURCES))
    in_table = {*known, *remembered.left_out}
    hidden = [name for name in hidden_columns(rule, remembered.left_out) if name in in_table]
    if feeds_alone(of_table, sink):
        return hidden
    if is_first and not any(fed_by(source).is_same(other) for other in sink.fed_before):
        return []
    lacks = remembered.lacking.get(source_words(fed_by(source)), ())
    return [name for name in hidden if name not in lacks]


def check_first_hidden(rule: TargetRule, topic: str, seen: Seen) -> None:
    """Raise the same for a new table, from records with several schemas or shapes."""
    _check_rows(rule, topic, seen)


def _check_rows(
    rule: TargetRule, topic: str, seen: Seen, known: Collection[str] = (), there_before: Collection[str] = ()
) -> None:
    """Raise the same: a hidden column was ``there_before``, or rows in this batch have it that may not be newer."""
    rows = [_Rows(tuple(name for name, _ in schema.columns), schema) for schema in seen.schemas]
    rows += [_Rows(tuple(sorted(shape)), None) for shape in seen.shapes]
    shown = {name for some in rows for name in some.columns}
    for name in hidden_columns(rule, {*there_before, *shown}):
        having = [some for some in rows if name in some.columns]
        beside = {other for some in having for other in some.columns}
        for some in rows:
            if name not in some.columns and (name in there_before or any(map(some.may_follow, having))):
                _refuse_open(rule, topic, name, [c for c in some.columns if c in seen.columns], {*known, *beside})


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows with the same columns; without a schema nothing shows which rows came first."""

    columns: tuple[str, ...]
    schema: ShownSchema | None

    def may_follow(self, others: _Rows) -> bool:
        """Whether these rows may be newer than the others."""
        return self.schema is None or others.schema is None or self.schema.is_behind(others.schema)


def hidden_columns(rule: TargetRule, there: Iterable[str]) -> list[str]:
    """The masked columns, and the columns in records, now or earlier, that the rule drops."""
    drop = rule.columns.drop
    return [*rule.columns.mask, *sorted(name for name in there if first_of(drop, name))]


def _refuse_open(rule: TargetRule, topic: str, hidden: str, new: Iterable[str], known: Collection[str]) -> None:
    columns = rule.columns
    for name in new:
        stored = columns.stored_as(name)
        if name not in known and stored is not None and stored not in rule.column_types:
            how = "columns.mask hides" if hidden in columns.mask else "columns.drop leaves out"
            raise SchemaChangeRefused(
                f"{topic}: column {name} is new in records that no longer have column {hidden}, which {how}. "
                "If the column was renamed, its values would be visible. Add the new name to columns.mask or "
                "columns.drop; if it is another column, declare its type under columns.types. Then resume"
            ).without_values()
