"""Whether a column of the source was renamed: a pure decision from two orders of columns.

Records do not say so. An embedded schema shows its columns in order. If one column is missing and one of the same type
is in its place, it may have been renamed. It may also have been dropped while another was added. So a rule must allow
the rename.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from paimon_table import RenameColumn, TableSchema, apply_changes
from paimon_table.types import DataType
from pipelines.config.table_rules import TargetRule
from pipelines.tables.column_changes import name_refusal, widened
from pipelines.tables.column_layout import Layout, first_layout
from pipelines.tables.merged_sources import fed_by, source_words
from pipelines.tables.observed_columns import Seen
from sources.changes import ShownSchema, SourceTable
from sources.column_sources import OPTION, ColumnSources

Columns = Sequence[tuple[str, DataType]]
_Gap = tuple[str | None, str | None]


@dataclass(frozen=True, slots=True)
class Renames:
    """The columns of one schema. ``unclear`` are columns with several possible new, or old, names."""

    found: tuple[tuple[str, str], ...] = ()
    unclear: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class _Between:
    gone: list[tuple[str, DataType]] = field(default_factory=list)
    new: list[tuple[str, DataType]] = field(default_factory=list)


def renames(known: Columns, shown: Columns, not_gone: Collection[str], not_new: Collection[str]) -> Renames:
    """Columns of ``known`` that ``shown`` has under another name, between the same neighbours.

    Columns in ``not_gone`` were lost before or came later, those in ``not_new`` have a meaning already: they are not
    candidates.
    """
    old, new = dict(known), dict(shown)
    gaps: dict[_Gap, _Between] = {}
    for gap, column in _between(known, new):
        if column[0] not in not_gone:
            gaps.setdefault(gap, _Between()).gone.append(column)
    for gap, column in _between(shown, old):
        if column[0] not in not_new:
            gaps.setdefault(gap, _Between()).new.append(column)
    found, unclear = [], []
    for between in gaps.values():
        pairs = [
            (a, b)
            for a, one in between.gone
            for b, other in between.new
            if one.with_nullable(True) == other.with_nullable(True)
        ]
        if len(pairs) == 1:
            found += pairs
        elif pairs:
            olds, news = (tuple(dict.fromkeys(names)) for names in zip(*pairs, strict=True))
            unclear.append((olds, news))
    return Renames(tuple(found), tuple(unclear))


def _between(columns: Columns, others: Collection[str]) -> list[tuple[_Gap, tuple[str, DataType]]]:
    """The columns that ``others`` lack, each with the neighbours that they have."""
    names = [name for name, _ in columns]
    common = [name in others for name in names]
    found = []
    for at, column in enumerate(columns):
        if common[at]:
            continue
        before = next((names[i] for i in range(at - 1, -1, -1) if common[i]), None)
        behind = next((names[i] for i in range(at + 1, len(names)) if common[i]), None)
        found.append(((before, behind), column))
    return found


@dataclass(frozen=True, slots=True)
class Followed:
    """The changes by the schemas of a batch: to the columns of the table, and to what it remembers."""

    changes: tuple[RenameColumn, ...]
    sources: ColumnSources
    unclear: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    order: tuple[str, ...] = ()
    """The columns of the source in their order."""


class _Following:
    """The columns of a source table from schema to schema."""

    def __init__(
        self,
        schema: TableSchema | None,
        rule: TargetRule,
        layout: Layout | None,
        known: ColumnSources,
    ) -> None:
        self._schema = schema
        self._rule = rule
        self._named = {*named_columns(rule, layout), *(name for name, _ in rule.own_columns)}
        fields = () if schema is None else schema.fields
        self.columns = [(f.name, f.type) for f in fields if f.name not in self._named]
        """The columns of the table, and the columns that it gets from the schemas so far."""
        self.known = known
        self.changes: list[RenameColumn] = []
        self.unclear: list[tuple[tuple[str, ...], tuple[str, ...]]] = []

    def take(self, shown: ShownSchema, *, is_first: bool) -> None:
        names = [name for name, _ in shown.columns]
        self.known = self.known.with_reused(names, shown.firsts)
        if self.known.is_past(names, shown.firsts):
            return
        self.known = self.known.with_shown(self.known.gone.keys() & {*names}, shown.firsts)
        left_out = {name for name, _ in shown.columns if self._rule.columns.stored_as(name) != name}
        there = {self.known.renamed.get(name, name) for name in names}
        came_later = {name for name, _ in self.columns if self.known.is_before(name, shown.firsts)}
        not_gone = {*self.known.gone, *there, *came_later}
        not_new = {*self.known.renamed, *self._named, *left_out}
        told = renames(self.columns, shown.columns, not_gone, not_new)
        self.unclear += told.unclear
        for old, new in told.found:
            self._rename(old, new)
        if self._rule.schema_changes.widen == "apply":
            types = dict(shown.columns)
            self.columns = [(name, widened(t, types.get(name, t)) or t) for name, t in self.columns]
        self.known = self.known.with_reused(names, shown.firsts)
        added = [(name, t) for name, t in shown.columns if name not in dict(self.columns) and name not in not_new]
        self.known = self.known.with_shown([""] if is_first else dict(added), shown.firsts)
        self.columns += added
        there = {self.known.renamed.get(name, name) for name in names} | {*names}
        self.known = self.known.with_gone([name for name, _ in self.columns if name not in there], shown.firsts)

    def _rename(self, old: str, new: str) -> None:
        if name_refusal(new, [name for name, _ in self.columns if name != old]) is not None:
            return
        if self._schema is not None and self._schema.has_column(old):
            change = RenameColumn(old, new)
            self._schema = apply_changes(self._schema, [change], self._schema.time_ms)
            self.changes.append(change)
        self.columns = [(new if name == old else name, t) for name, t in self.columns]
        self.known = self.known.with_rename(old, new)


def followed(
    schema: TableSchema | None,
    rule: TargetRule,
    layout: Layout | None,
    schemas: Sequence[ShownSchema],
    known: ColumnSources,
) -> Followed:
    """Compare the embedded schemas of a batch with the columns of a table, the oldest first.

    Columns that the rule names keep their names. Raises SchemaChangeRefused for one that keys or options name. Without
    a ``schema`` the table does not exist yet.
    """
    following = _Following(schema, rule, layout, known)
    for number, shown in enumerate(schemas):
        following.take(shown, is_first=schema is None and number == 0)
    order = tuple(name for name, _ in following.columns)
    return Followed(tuple(following.changes), following.known, tuple(following.unclear), order)


def with_renames(rule: TargetRule, seen: Seen, source: SourceTable) -> tuple[TargetRule, Seen]:
    """The rule and the columns of a new table whose first records have columns under several names."""
    if not rule.schema_changes.follows_renames or rule.merge_sources is not None or not seen.schemas:
        return rule, seen
    layout = first_layout(rule, seen.columns) if rule.changes_rows else None
    found = followed(None, rule, layout, seen.schemas, ColumnSources())
    known = replace(found.sources, source=source_words(fed_by(source)))
    if rule.schema_changes.rename == "pause":
        known = ColumnSources(source=known.source, since=known.since, gone=known.gone)
    rule = replace(rule, options={**rule.options, OPTION: known.text})
    former = {*known.renamed, *known.past}
    if not former:
        return rule, seen
    return rule, seen.without(former).in_order(found.order)


def named_columns(rule: TargetRule, layout: Layout | None) -> set[str]:
    """The columns that the rule names, by their names in source or table."""
    columns = rule.columns
    named = {*rule.column_types, *columns.rename, *columns.rename.values(), *columns.computed, *columns.paths}
    if layout is not None:
        mentioned = layout.mentioned
        named |= {name for name in layout.types if name.lower() in mentioned}
    return named
