"""A table that does not exist yet: whether the events of a source table create it, and with which schema."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from paimon_table import TableSchema
from paimon_table.errors import ConfigError
from pipelines.config.own_columns import twin_of_own
from pipelines.config.table_rules import TargetRule
from pipelines.tables.column_changes import column_refusals
from pipelines.tables.column_layout import first_layout, first_stored
from pipelines.tables.declared_columns import check_declared
from pipelines.tables.evolution import Evolution
from pipelines.tables.first_schema import first_schema, primary_key_of, unusable_message_key
from pipelines.tables.observed_columns import Seen
from pipelines.tables.relied_columns import check_first_hidden
from pipelines.tables.row_checks import check_rows
from pipelines.tables.watermarks import check_event_time
from pipelines.tables.writable_tables import check_new
from sources.changes import SourceTable
from sources.decode_target import Rejection
from sources.record_look import envelope_words, other_words

log = logging.getLogger(__name__)


class Rejected(Exception):
    """A source table cannot have a route; ``waits`` if that is expected to change."""

    def __init__(self, rejection: Rejection, waits: bool = False) -> None:
        super().__init__(rejection.reason)
        self.rejection = rejection
        self.waits = waits


@dataclass(frozen=True, slots=True)
class NewTable:
    """The facts that Tidemark knows about a table before it creates the table."""

    identifier: str
    pipeline: str
    rule: TargetRule
    source: SourceTable
    seen: Seen
    blames_records: bool
    """Whether the records cause the mismatch, and not the file.

    In that case the file has no rule for the table, or the rule has already created another table for the topic.
    """

    def schema(self, evolution: Evolution, now_ms: int) -> TableSchema:
        """The first schema.

        Raises Rejected if the records do not determine one, ConfigError if the rule does not fit them. ``evolution``
        gets the columns that the table cannot have.
        """
        if not self.seen.columns:
            reason = f"table {self.identifier} does not exist yet, and no event so far shows its columns"
            raise Rejected(Rejection(reason, is_unmade=True, is_empty=True), waits=True)
        envelope = envelope_words(self.seen.columns)
        if envelope is not None and (self.rule.on_change is None or self.rule.is_log_assumed):
            raise self._refusal(f"{self.source.topic}: {envelope}. To store them as they are, set `mode: append`")
        unusable = unusable_message_key(self.source, self.seen, self.identifier, self.rule)
        if unusable is not None:
            raise Rejected(Rejection(unusable, is_unmade=True))
        if self.rule.changes_rows:
            return self._with_stored_columns().schema_of_stored(evolution, now_ms)
        return self.schema_of_stored(evolution, now_ms)

    def _with_stored_columns(self) -> NewTable:
        """The table as its rule stores the observed columns."""
        layout = first_layout(self.rule, self.seen.columns)
        if layout.all_lacking and not self.seen.has_rows:
            missing, place = next(iter(layout.all_lacking.items()))
            reason = (
                f"table {self.identifier} does not exist yet: {place}: the records so far are deletes, which do "
                f"not show column {missing!r}. The first whole row creates the table"
            )
            raise Rejected(Rejection(reason, is_unmade=True, is_empty=True), waits=True)
        check_first_hidden(self.rule, self.source.topic, self.seen)
        try:
            seen, rule = first_stored(layout, self.seen, self.source.topic)
        except ConfigError as error:
            raise self._refusal(error) from error
        return replace(self, seen=seen, rule=rule)

    def _refusal(self, error: ConfigError | str) -> Rejected | ConfigError:
        """Why the table is not created, as an error of the file or of the records."""
        if self.blames_records:
            return Rejected(Rejection(str(error), is_unmade=True))
        return ConfigError(error) if isinstance(error, str) else error

    def schema_of_stored(self, evolution: Evolution, now_ms: int) -> TableSchema:
        """The first schema; the observed columns have their table names."""
        usable = self._usable(evolution)
        try:
            shown = {**self.seen.columns, **self.seen.key_only}
            check_declared(self.rule, shown, self.source.topic, self.identifier, is_new=True)
            schema = first_schema(self.source, usable, self.identifier, self.rule, now_ms)
            check_new(schema, self.identifier, self.pipeline)
            if self.rule.changes_rows:
                check_rows(self.rule, schema)
            check_event_time(self.rule, schema, self.identifier)
        except ConfigError as error:
            raise self._refusal(error) from error
        extra = {"event": "table-created", "table": self.identifier, "fields": {"topic": self.source.topic}}
        log.info("pipeline %s: %s: creating table %s", self.pipeline, self.source.topic, self.identifier, extra=extra)
        if self.rule.is_log_assumed:
            log.warning(
                "%s: its messages have no key%s, so table %s has no primary key and is a log of events. Every "
                "record adds a row, with its kind, operation, time and position. To confirm this, set `mode: "
                "append` and `on_change: log`. For a table with the newest row of each key, give its rule a "
                "primary_key, another `into`, and `backfill: true` for records that were already read",
                self.source.topic,
                other_words(self.seen.columns),
                self.identifier,
            )
        return schema

    def _usable(self, evolution: Evolution) -> Seen:
        """The columns that a table can have."""
        rule, seen = self.rule, self.seen
        key = primary_key_of(rule, seen)
        shown = {**seen.columns, **{name: t for name, t in seen.key_only.items() if name in key}}
        types = {name: t for name, t in shown.items() if t is not None} | rule.declared(shown)
        found = column_refusals(types, {*key, *rule.partition_by, *rule.column_types})
        found |= {name: why for name in types if (why := twin_of_own(rule, name)) is not None}
        refused = {name: why for name, why in found.items() if name not in rule.column_types}
        computed = next((name for name in rule.columns.computed if name in found), None)
        if computed is not None:
            raise ConfigError(f"rule into {rule.into}: computed column {computed!r}: {found[computed]}")
        evolution.note_refused(self.identifier, refused, (), self.source)
        unusable = next((name for name in (*key, *rule.partition_by) if name in refused), None)
        if unusable is not None:
            reason = f"table {self.identifier} cannot be created: column {unusable!r} of its key or partition: "
            raise Rejected(Rejection(reason + refused[unusable], is_unmade=True))
        columns, of_key = (
            {name: t for name, t in found.items() if name not in refused} for found in (seen.columns, seen.key_only)
        )
        return replace(seen, columns=columns, key_only=of_key)
