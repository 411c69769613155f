"""How tables follow the columns that events show, and what each of them cannot follow."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from paimon_table import AddColumn, SchemaChange, SetOption
from paimon_table.errors import SchemaChangeRefused
from pipelines.config.config import PipelineConfig
from pipelines.config.table_rules import TargetRule
from pipelines.tables.column_changes import added_within_a_day, column_changes, told
from pipelines.tables.column_layout import Layout, hidden_changes, layout_of, stored_columns
from pipelines.tables.first_schema import name_of_own
from pipelines.tables.observed_columns import Seen
from pipelines.tables.rule_options import options_of_new_columns
from sinks.commit.table_sink import TableSink
from sources.changes import SourceTable
from sources.column_forms import OPTION, RAW, ColumnForms
from sources.position_kinds import POSITION

log = logging.getLogger(__name__)

_KEPT_RAW = (
    "%s: column %r keeps the form that records without an embedded schema had, although records have a schema (%s) now."
    " To store what the schema says, write into a new table (another `into`, with `backfill: true`)"
)


class Evolution:
    """New columns and wider types of all tables of a pipeline."""

    def __init__(self, config: PipelineConfig) -> None:
        self._config = config
        self._refused: dict[str, dict[str, str]] = {}
        """Per table: columns that it cannot have or not widen, and why."""
        self._kept_raw: set[tuple[str, str]] = set()

    def follow(
        self, sink: TableSink, rule: TargetRule, of_source: TargetRule, source: SourceTable, seen: Seen, now_ms: int
    ) -> bool:
        """Add and widen what a table can take of ``seen``; returns whether records are to be decoded again for it.

        ``rule`` is that of the table, ``of_source`` that of the source table, which says how its columns are stored.

        SchemaChangeRefused where the rule or `on_bad_record` says that such a column ends the run.
        """
        # The kind of source positions is told as the form of a column that no source has.
        seen = replace(
            seen, columns={name: t for name, t in seen.columns.items() if name not in dict(rule.order_columns)}
        )
        room = _room(sink, rule, now_ms)
        shown, declared, remembered = seen.columns, rule.column_types, list[SetOption]()
        layout = None
        if of_source.changes_rows:
            layout = layout_of(of_source, sink.table.schema, seen.columns)
            layout.check_lacking(source.topic, seen.columns)
            shown, computed = stored_columns(layout, seen), layout.computed
            declared, remembered = {**computed, **declared}, hidden_changes(layout, sink.table.schema)
        by_pattern = rule.declared(shown)
        found = column_changes(sink.table.schema, shown, declared, room, by_pattern, rule.schema_changes)
        for name, reason in found.pausing.items():
            raise SchemaChangeRefused(f"{source.topic}: column {name}: {reason}").without_values()
        if found.left and _word(rule) == "pause":
            raise SchemaChangeRefused(f"{source.topic}: column {found.left[0]}: {_beyond(rule)}").without_values()
        is_news = self.note_refused(sink.identifier, found.refused, sink.table.schema.column_names, source)
        learnt = self._learnt_forms(sink, found.changes, seen, layout) + remembered
        if not found.changes and not learnt:
            return is_news or bool(found.left)
        changes = [*found.changes, *options_of_new_columns(sink.table.schema, rule, found.added), *learnt]
        extra = {"event": "schema-changed", "table": sink.identifier}
        log.info(
            "pipeline %s: %s: %s", self._config.name, sink.identifier, told(changes, sink.table.schema), extra=extra
        )
        sink.evolve(changes, now_ms)
        if found.added and _room(sink, rule, now_ms) <= 0:
            log.warning("%s: %s", sink.identifier, _beyond(rule))
        return True

    def _learnt_forms(
        self, sink: TableSink, changes: Collection[SchemaChange], seen: Seen, layout: Layout | None
    ) -> list[SetOption]:
        """The option that remembers how columns are read, where records tell something new about that."""
        schema = sink.table.schema
        columns = {f.name: f.type for f in schema.fields} if layout is None else dict(layout.types)
        if schema.has_column(POSITION):
            columns[POSITION] = schema.field(POSITION).type
        stated = ColumnForms.parsed(schema.options.get(OPTION))
        known = stated.only(columns.keys())
        for name, form in seen.forms.items():
            if known.of(name) == RAW and form != RAW and (sink.identifier, name) not in self._kept_raw:
                self._kept_raw.add((sink.identifier, name))
                log.warning(_KEPT_RAW, sink.identifier, name, form)
        if layout is None:
            columns |= {change.name: change.type for change in changes if isinstance(change, AddColumn)}
        learnt = known.learnt(seen.forms, columns)
        return [] if learnt == stated or not seen.forms else [SetOption(OPTION, learnt.text)]

    def note_refused(
        self, identifier: str, refused: Mapping[str, str], present: Collection[str], source: SourceTable
    ) -> bool:
        """Remember what the table cannot follow; returns whether records are to be decoded again for it."""
        known = self._refused.setdefault(identifier, {})
        new = {name: reason for name, reason in refused.items() if known.get(name) != reason}
        for name, reason in new.items():
            if self._config.source.on_bad_record == "fail":
                text = f"{source.topic}: column {name}: {reason}; table {identifier} stays as it is"
                raise SchemaChangeRefused(text).without_values()
            log.warning(
                "%s: column %r of %s: %s; values that the table does not hold go to quarantine",
                source.topic, name, identifier, reason,
            )  # fmt: skip
        known.update(new)
        return not new.keys() <= {*present}

    def limits(self, sink: TableSink, rule: TargetRule, now_ms: int) -> dict[str, Any]:
        """What the decoder is told of columns that the table lacks."""
        is_full = _room(sink, rule, now_ms) <= 0
        refused = self._refused.get(sink.identifier, {})
        of_events = {name: name_of_own(rule, name) for name, _ in rule.own_columns if name not in rule.columns.rename}
        return {
            "refused": {n: why for n, why in refused.items() if not sink.table.schema.has_column(n)} | of_events,
            "beyond": _beyond(rule) if is_full and _word(rule) != "pause" else None,
            "ignores_new": is_full and _word(rule) == "ignore",
        }


def _room(sink: TableSink, rule: TargetRule, now_ms: int) -> int:
    """How many columns the table may get today."""
    if rule.schema_changes.add != "apply":
        return 0
    added = added_within_a_day(sink.table.context.schemas.values(), now_ms)
    return rule.new_columns.max_per_day - added


def _word(rule: TargetRule) -> str:
    """What a column does for which there is no room."""
    add = rule.schema_changes.add
    return rule.new_columns.beyond if add == "apply" else add or "quarantine"


def _beyond(rule: TargetRule) -> str:
    limit, policy, word = rule.new_columns.max_per_day, rule.new_columns.beyond, rule.schema_changes.add
    if word != "apply":
        return f"`schema_changes: {{add: {word}}}`; say apply to add it, or declare its type under columns.types"
    what = {"quarantine": "records with others go to quarantine", "ignore": "others are left out", "pause": "one more"}
    return (
        f"the table takes {limit} new columns within 24 hours, {what[policy]}; raise new_columns.max_per_day, or"
        " declare its type under columns.types"
    )
