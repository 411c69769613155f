"""How tables follow the columns of events, and what each table cannot follow."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from paimon_table import (
    AddColumn,
    DescribeColumn,
    DropColumn,
    RenameColumn,
    SchemaChange,
    SetOption,
    TableSchema,
    apply_changes,
)
from paimon_table.errors import SchemaChangeRefused
from paimon_table.types import DataType
from pipelines.config.config import PipelineConfig
from pipelines.config.own_columns import name_of_own, twin_of_own
from pipelines.config.table_rules import TargetRule
from pipelines.tables.column_changes import PausingChange, added_within_a_day, column_changes, nullable_changes, told
from pipelines.tables.column_layout import (
    Layout,
    by_form_key,
    form_columns,
    hidden_changes,
    layout_of,
    names_decoded,
    stored_columns,
)
from pipelines.tables.merged_sources import (
    fed_by,
    feeds_alone,
    names_for,
    names_of,
    remembered,
    source_words,
    with_names_of,
)
from pipelines.tables.observed_columns import Seen
from pipelines.tables.relied_columns import hidden_columns
from pipelines.tables.renames import Followed, followed, named_columns
from pipelines.tables.rule_options import options_of_new_columns
from sinks.commit.table_sink import TableSink
from sources.changes import NewestRow, SourceTable
from sources.column_forms import OPTION, RAW, ColumnForms
from sources.column_sources import OPTION as COLUMN_SOURCES
from sources.column_sources import ColumnSources, Firsts

log = logging.getLogger(__name__)

_KEPT_RAW = (
    "%s: column %r keeps the form of records without an embedded schema, although records now have a schema (%s). "
    "To store the values as the schema says, write into a new table (another `into`, with `backfill: true`)"
)


class Evolution:
    """New columns and wider types of all tables of a pipeline."""

    def __init__(self, config: PipelineConfig, *, is_beside: bool = False) -> None:
        """``is_beside``: rereads, which may be older than the changes that the tables have followed."""
        self._config = config
        self._beside = is_beside
        self._refused: dict[str, dict[str, str]] = {}
        """Per table: columns that it cannot get or widen, with the reason."""
        self._kept_raw: set[tuple[str, str]] = set()
        self._unclear: set[tuple[str, tuple[str, ...], tuple[str, ...]]] = set()
        """Unclear renames: table, old and new names."""

    def follow(
        self, sink: TableSink, rule: TargetRule, of_source: TargetRule, source: SourceTable, seen: Seen, now_ms: int
    ) -> bool:
        """Add and widen the columns of ``seen`` that a table can take; returns whether to decode records again for it.

        ``rule`` is the rule of the table. ``of_source``, the source table's rule, says how to store its columns. Raises
        SchemaChangeRefused if the rule or `on_bad_record` says that such a column ends the run.
        """
        # The kind of source positions is stored as the form of a column that no source has.
        seen = replace(
            seen, columns={name: t for name, t in seen.columns.items() if name not in dict(rule.order_columns)}
        )
        room, before = _room(sink, rule, now_ms), sink.table.schema
        renamed = self._renamed(sink, rule, of_source, source, seen)
        schema = apply_changes(before, renamed.changes, now_ms)
        sources, layout = renamed.sources, None
        if sources.past != remembered(sink, source).past:  # after the next decoding, records show their meaning
            layout = layout_of(of_source, schema) if of_source.changes_rows else None
            forms = self._learnt_forms(sink, schema, renamed.changes, Seen({}, None), layout)
            told_sources = sources_change(before, with_names_of(sources, sink, source))
            self.change(sink, [*renamed.changes, *forms, *told_sources], now_ms)
            return True
        schemas = (one for one in seen.schemas if not sources.is_past(dict(one.columns), one.firsts))
        seen = replace(seen, schemas=tuple(schemas)).without(names_for(sources, source).renamed)
        seen = seen.in_order(renamed.order)
        shown, declared, hidden = seen.columns, rule.column_types, list[SetOption]()
        if of_source.changes_rows:
            layout = layout_of(of_source, schema, seen.columns)
            layout.check_lacking(source.topic, seen.columns)
            shown, computed = stored_columns(layout, seen), layout.computed
            declared, hidden = {**computed, **declared}, hidden_changes(layout, schema)
        by_pattern = rule.declared(shown)
        earlier = {names[-1]: names[:-1] for names in sources.continued.values()}
        newest = partial(self._is_newest, of_source, seen, is_alone=feeds_alone(rule, sink))
        stored = of_source.columns.stored_as
        several = {column: types for name, types in seen.several_types.items() if (column := stored(name)) is not None}
        found = column_changes(schema, shown, declared, room, by_pattern, rule.schema_changes, earlier, newest, several)
        for name, reason in found.pausing.items():
            raise SchemaChangeRefused(f"{source.topic}: column {name}: {reason}").without_values()
        if found.left and _word(rule) == "pause":
            raise SchemaChangeRefused(f"{source.topic}: column {found.left[0]}: {_beyond(rule)}").without_values()
        self._check_defaults(rule, of_source, source, seen, found.added)
        refused = {
            name: (None if schema.has_column(name) else twin_of_own(rule, name)) or why
            for name, why in found.refused.items()
        }
        is_news = self.note_refused(sink.identifier, refused, schema.column_names, source)
        added = {of_source.columns.source_of(name) or name for name in found.added}
        for one in seen.schemas if feeds_alone(rule, sink) else ():
            sources = sources.with_shown(added.intersection(dict(one.columns)), one.firsts)
        for name, other in found.continued.items():
            sources = sources.with_new_column(of_source.columns.source_of(name) or name, name, other)
        columns = [*renamed.changes, *found.changes, *self._nullable(rule, of_source, source, schema, seen)]
        learnt = self._learnt_forms(sink, schema, columns, seen, layout) + hidden
        learnt += sources_change(before, with_names_of(sources, sink, source))
        if not columns and not learnt:
            return is_news or bool(found.left)
        changes = [*columns, *options_of_new_columns(schema, rule, found.added), *learnt]
        if layout is not None and columns:
            self._check_expressions(of_source, before, apply_changes(before, changes, now_ms))
        self.change(sink, changes, now_ms)
        if found.added and _room(sink, rule, now_ms) <= 0:
            log.warning("%s: %s", sink.identifier, _beyond(rule))
        return True

    def change(self, sink: TableSink, changes: Sequence[SchemaChange], now_ms: int) -> bool:
        """Publish a new version of the schema, and log it; returns whether there are changes."""
        extra = {"event": "schema-changed", "table": sink.identifier}
        words = told(changes, sink.table.schema)
        if words:
            log.info("pipeline %s: %s: %s", self._config.name, sink.identifier, words, extra=extra)
        if changes:
            sink.evolve(changes, now_ms)
        return bool(changes)

    def _renamed(
        self, sink: TableSink, rule: TargetRule, of_source: TargetRule, source: SourceTable, seen: Seen
    ) -> Followed:
        """The renamed columns, by the embedded schemas of the records."""
        schema = sink.table.schema
        known = remembered(sink, source)
        if self._beside or not rule.schema_changes.follows_renames or not feeds_alone(rule, sink):
            for shown in seen.schemas if names_of(sink, source) == known else ():
                known = known.with_reused(dict(shown.columns), shown.firsts)
            return Followed((), known)
        layout = layout_of(of_source, schema) if of_source.changes_rows else None
        found = followed(schema, of_source, layout, seen.schemas, known)
        news = [
            words for olds, names in found.unclear if (words := (sink.identifier, olds, names)) not in self._unclear
        ]
        if rule.schema_changes.rename == "pause" and (found.changes or found.unclear):
            olds, names = found.unclear[0] if found.unclear else ((found.changes[0].name,), (found.changes[0].to,))
            raise SchemaChangeRefused(
                f"{source.topic}: column {', '.join(olds)} is gone, {', '.join(names)} of the same type takes its"
                " place, and `schema_changes: {rename: pause}`. Set apply and resume if it was renamed, or add_and_keep"
            ).without_values()
        for _, olds, names in news:
            log.warning(
                "%s: table %s: column %s is gone and %s takes its place: Tidemark cannot tell which column was "
                "renamed. The table gets new columns, and the old ones keep their values. To rename a column "
                "instead, pause the table and use Paimon's ALTER TABLE",
                source.topic, sink.identifier, " or ".join(olds), " or ".join(names),
            )  # fmt: skip
        self._unclear.update(news)
        return found

    def _is_newest(self, of_source: TargetRule, seen: Seen, name: str, observed: DataType, *, is_alone: bool) -> bool:
        """Whether the newest schema of the records with the column has a type.

        Rereads do not show that, nor one of several source tables.
        """
        if self._beside or not is_alone:
            return False
        column = of_source.columns.source_of(name) or name
        types = [t for one in seen.schemas for known, t in one.columns if known == column]
        return types[-1:] == [observed] or not seen.schemas

    def _check_defaults(
        self, rule: TargetRule, of_source: TargetRule, source: SourceTable, seen: Seen, added: Collection[str]
    ) -> None:
        stated = {of_source.columns.stored_as(name) for name in seen.defaults} & {*added}
        if stated and rule.schema_changes.default == "pause":
            raise SchemaChangeRefused(
                f"{source.topic}: column {', '.join(sorted(map(str, stated)))} is new and has a default in the source,"
                " and `schema_changes: {default: pause}`. Set ignore and resume: older rows then have NULL there until"
                " the table is rebuilt (`tidemark replay --rebuild`) from records that have the default"
            ).without_values()

    def _nullable(
        self, rule: TargetRule, of_source: TargetRule, source: SourceTable, schema: TableSchema, seen: Seen
    ) -> tuple[SchemaChange, ...]:
        """The columns that become nullable. Raises SchemaChangeRefused if the rule says `pause`."""
        names = {name for column in seen.nullable if (name := of_source.columns.stored_as(column)) is not None}
        try:
            return nullable_changes(schema, names, rule.schema_changes)
        except PausingChange as error:
            raise SchemaChangeRefused(f"{source.topic}: {error}").without_values() from error

    def describe(self, sink: TableSink, rule: TargetRule, comments: Mapping[str, str], now_ms: int) -> bool:
        """Set the comments of columns to those of the source; returns whether one has changed."""
        schema, stored = sink.table.schema, rule.columns.stored_as
        changes = [
            DescribeColumn(name, comment)
            for column, comment in comments.items()
            if (name := stored(column)) is not None
            and schema.has_column(name)
            and schema.field(name).description != comment
        ]
        return self.change(sink, changes, now_ms)

    def _check_expressions(self, rule: TargetRule, before: TableSchema, schema: TableSchema) -> None:
        """Raise ConfigError if expressions of the rule do not fit the columns that the table will have."""
        from sources.expressions.computed import check_meaning

        layout = layout_of(rule.for_table(schema), schema)
        _ = layout.computed
        types = layout_of(rule.for_table(before), before).types
        for name, text in rule.columns.expressions.items():
            check_meaning(layout.place_of(name), text, types, layout.types)
        if rule.where is not None:
            check_meaning(layout.where_place, rule.where, types, layout.types)
        if rule.where is not None and not layout.all_lacking:
            from sources.expressions.computed import condition

            condition(layout.where_place, rule.where, layout.types)

    def drop(self, sink: TableSink, source: SourceTable, ends: Mapping[str, Mapping[str, int]], now_ms: int) -> None:
        """Drop columns that the source lacks from these offsets on. Raises SchemaChangeRefused if one must stay."""
        sources = with_names_of(remembered(sink, source).without_columns(ends), sink, source)
        changes = [DropColumn(name) for name in ends]
        self.change(sink, [*changes, *sources_change(sink.table.schema, sources)], now_ms)

    def keep_gone(
        self, sink: TableSink, source: SourceTable, columns: Collection[str], behind: Firsts, now_ms: int
    ) -> bool:
        """Record that the source has lost columns, so that no later column is taken for them.

        Returns whether that is new.
        """
        sources = with_names_of(remembered(sink, source).with_gone(columns, behind), sink, source)
        return self.change(sink, sources_change(sink.table.schema, sources), now_ms)

    def keep_left_out(
        self, sink: TableSink, rule: TargetRule, of_source: TargetRule, row: NewestRow, now_ms: int
    ) -> bool:
        """Record which hidden columns the newest row lacks; returns whether that is new.

        A column that has had only NULL so far may be a hidden column under a new name. If several source tables feed
        the table, none of them shows that all others have lost a column. The table then stores what each source table
        lacks.
        """
        if not row.has_known:
            return False
        schema = sink.table.schema
        known = ColumnSources.parsed(schema.options.get(COLUMN_SOURCES))
        if feeds_alone(rule, sink):
            found = known.with_left_out(row.left_out)
        else:
            found = known.with_left_out((*known.left_out, *row.left_out))
            there = {*row.left_out, *({*names_decoded(of_source, sink.table)} - {*row.absent})}
            lacks = [name for name in hidden_columns(of_source, found.left_out) if name not in there]
            found = found.with_lacking(source_words(fed_by(row.source)), lacks)
        return self.change(sink, sources_change(schema, found), now_ms)

    def _learnt_forms(
        self,
        sink: TableSink,
        schema: TableSchema,
        changes: Collection[SchemaChange],
        seen: Seen,
        layout: Layout | None,
    ) -> list[SetOption]:
        """The option that stores the forms of columns, if records change it.

        ``schema`` is the schema of the table with the renames among the ``changes`` applied.
        """
        columns = form_columns(schema, layout)
        told = seen.forms if layout is None else by_form_key(layout.rule, seen.forms)
        stated = ColumnForms.parsed(schema.options.get(OPTION))
        names = {change.name: change.to for change in changes if isinstance(change, RenameColumn)}
        known = stated.renamed(names).only(columns.keys())
        for name, form in told.items():
            if known.of(name) == RAW and form != RAW and (sink.identifier, name) not in self._kept_raw:
                self._kept_raw.add((sink.identifier, name))
                log.warning(_KEPT_RAW, sink.identifier, name, form)
        columns |= {change.name: change.type for change in changes if isinstance(change, AddColumn)}
        learnt = known.learnt(told, columns)
        is_news = learnt != stated and (bool(told) or bool(names))
        return [SetOption(OPTION, learnt.text)] if is_news else []

    def note_refused(
        self, identifier: str, refused: Mapping[str, str], present: Collection[str], source: SourceTable
    ) -> bool:
        """Record the changes that the table cannot follow; returns whether to decode records again for it."""
        known = self._refused.setdefault(identifier, {})
        new = {name: reason for name, reason in refused.items() if known.get(name) != reason}
        for name, reason in new.items():
            if self._config.source.on_bad_record == "fail":
                text = f"{source.topic}: column {name}: {reason}; table {identifier} stays as it is"
                raise SchemaChangeRefused(text).without_values()
            log.warning(
                "%s: column %r of %s: %s; records with values that do not fit go to quarantine",
                source.topic, name, identifier, reason,
            )  # fmt: skip
        known.update(new)
        return not new.keys() <= {*present}

    def limits(self, sink: TableSink, rule: TargetRule, now_ms: int) -> dict[str, Any]:
        """How the decoder treats columns that the table lacks."""
        is_full = _room(sink, rule, now_ms) <= 0
        refused = self._refused.get(sink.identifier, {})
        of_events = {name: name_of_own(rule, name) for name, _ in rule.own_columns if name not in rule.columns.rename}
        return {
            "refused": {n: why for n, why in refused.items() if not sink.table.schema.has_column(n)} | of_events,
            "beyond": _beyond(rule) if is_full and _word(rule) != "pause" else None,
            "ignores_new": is_full and _word(rule) == "ignore",
        }


def check_droppable(rule: TargetRule, schema: TableSchema, name: str, topic: str) -> None:
    """Raise SchemaChangeRefused for a column that the rule names, or stores in another form."""
    layout = layout_of(rule, schema) if rule.changes_rows else None
    is_named = name in named_columns(rule, layout)
    columns = ColumnSources.parsed(schema.options.get(COLUMN_SOURCES)).continued.get(name)
    if columns is not None:
        raise SchemaChangeRefused(
            f"{topic}: its events have no column {name} any longer, and its values are in the columns "
            f"{', '.join(columns)} of the table (`retype: new_column`), so `schema_changes: {{drop: drop}}` cannot "
            "drop it. Set keep_null and resume"
        ).without_values()
    if is_named or rule.columns.stored_as(name) != name:
        raise SchemaChangeRefused(
            f"{topic}: its events no longer have column {name}, but the rule names it, so `schema_changes: "
            "{drop: drop}` cannot drop it. Remove it from the rule, or set keep_null and resume"
        ).without_values()


def sources_change(schema: TableSchema, sources: ColumnSources) -> list[SetOption]:
    """The option that stores the sources of columns, if it changes."""
    before = ColumnSources.parsed(schema.options.get(COLUMN_SOURCES))
    return [] if sources == before else [SetOption(COLUMN_SOURCES, sources.text)]


def _room(sink: TableSink, rule: TargetRule, now_ms: int) -> int:
    """The number of columns that the table may still get today."""
    if rule.schema_changes.add != "apply":
        return 0
    added = added_within_a_day(sink.table.context.schemas.values(), now_ms)
    return rule.new_columns.max_per_day - added


def _word(rule: TargetRule) -> str:
    """The effect of a value in a column beyond the limit."""
    add = rule.schema_changes.add
    return rule.new_columns.beyond if add == "apply" else add or "quarantine"


def _beyond(rule: TargetRule) -> str:
    limit, policy, word = rule.new_columns.max_per_day, rule.new_columns.beyond, rule.schema_changes.add
    if word != "apply":
        return f"`schema_changes: {{add: {word}}}`; set apply to add it, or declare its type under columns.types"
    what = {
        "quarantine": "records with further columns go to quarantine",
        "ignore": "further columns are left out",
        "pause": "one more",
    }
    return (
        f"the table takes {limit} new columns within 24 hours, {what[policy]}; raise new_columns.max_per_day, or"
        " declare its type under columns.types"
    )
