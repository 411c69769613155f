"""Opens or creates a table for a batch, as its rule says: for the stream or for work alongside it."""

from __future__ import annotations

import logging

from paimon_table import Table, TableName, outcome_unknown
from paimon_table.errors import ConfigError
from paimon_table.surroundings import now_ms
from pipelines.checkpoint.book import UNKNOWN, Entry
from pipelines.config.table_name import alike_text, folded
from pipelines.config.table_rules import TargetRule
from pipelines.tables.checkpoint_record import older_copy
from pipelines.tables.declared_columns import check_declared
from pipelines.tables.evolution import Evolution
from pipelines.tables.new_table import NewTable
from pipelines.tables.observed_columns import Seen
from pipelines.tables.renames import with_renames
from pipelines.tables.writable_tables import rule_plan
from pipelines.tables.writing_scope import WritingScope
from sinks.commit.table_sink import TableSink
from sources.changes import SourceTable

log = logging.getLogger(__name__)


_BELOW = (
    ": Tidemark skips records of dump files with lower offsets as stored. This includes files that were "
    "never read (if offsets do not rise with the names of files)"
)


class Opening:
    """Opens the tables of one pipeline, and creates missing ones."""

    def __init__(self, scope: WritingScope, evolution: Evolution) -> None:
        self._book = scope.book
        self._config = scope.config
        self._own = scope.own
        self._catalog = scope.own.catalog
        self._commit_user = scope.commit_user
        self._evolution = evolution
        self._beside = scope.beside
        self._topic_ids = scope.topic_ids
        self._first_own = scope.first_own
        self._made: list[TableName] = []

    def open_or_create(
        self, name: TableName, rule: TargetRule, source: SourceTable, seen: Seen, *, feeds_one: bool, is_keyed: bool
    ) -> Table:
        """The table as its rule says; created from what a source table shows if it does not exist.

        ``feeds_one``: whether the topic already feeds a table; ``is_keyed``: whether it has records with keys. Raises
        ConfigError if rule and table do not fit, Rejected if the source does not show enough to create the table.
        """
        identifier = str(name)
        table = self._catalog.find(name)
        # If the topic has records with keys, those without one are outliers, not a log.
        message_key = () if is_keyed and seen.key_columns is None else seen.key_columns
        rule = rule.for_keys(message_key) if table is None else rule.for_table(table.schema)
        if table is None:
            of_new, seen = with_renames(rule, seen, source)
            is_named = self._config.has_rule_for(source.database, source.schema, source.table, source.topic)
            new = NewTable(identifier, self._config.name, of_new, source, seen, feeds_one or not is_named)
            self._warn_of_alike(name)
            table = self._catalog.create(name, new.schema(self._evolution, now_ms()))
        shown = {*seen.columns, *table.schema.column_names, *rule.columns.computed}
        check_declared(rule, shown, source.topic, identifier, is_new=False)
        return rule_plan(self._config, rule, table, identifier).published()

    def _warn_of_alike(self, name: TableName) -> None:
        """Warn of a new table with almost the name of another one of the pipeline."""
        self._made.append(name)  # first: of two tables created at the same moment, one sees the other
        known = {folded(str(other)): other for other in (*self._own.names(), *self._made) if other != name}
        other = known.get(folded(str(name)))
        if other is not None:
            log.warning("table %s", alike_text(str(name), str(other)))

    def sink(self, identifier: str, table: Table) -> TableSink:
        """The commits of a table.

        Raises ConfigError if a lost checkpoint must stop the pipeline, or for an older copy; RolledBack for a table
        that lacks commits.
        """
        if self._beside is not None:
            return TableSink(
                identifier,
                table,
                self._config.name,
                self._commit_user,
                resumes=False,
                reading=self._beside,
            )
        policy, known = self._config.on_lost_checkpoint, self._known(identifier, table)
        sink = TableSink(
            identifier,
            table,
            self._config.name,
            self._commit_user,
            resumes=policy == "resume",
            by_offsets=self._config.source.files is None,
            topic_ids=self._topic_ids,
            noted=known.position(self._commit_user),
        )
        if sink.is_hidden and self._book is not None and not known.commits and policy != "restart":
            raise outcome_unknown(table.paths.root, self._commit_user)
        has_begun = self._own.has_begun(TableName.of(identifier))
        if self._first_own is not None and not has_begun and sink.found_batch >= self._first_own:
            raise older_copy(self._config, self._first_own - 1, identifier, sink.found_batch)
        if sink.is_lost_checkpoint:
            if policy == "fail":
                raise ConfigError(
                    f"table {identifier} was written under another checkpoint of pipeline {self._config.name};"
                    " restore that checkpoint, or set on_lost_checkpoint to resume or restart"
                )
            if policy == "resume":
                log.warning(
                    "%s: written under another checkpoint; continues from the positions in the table%s",
                    identifier,
                    "" if self._config.source.files is None else _BELOW,
                )
        return sink

    def _known(self, identifier: str, table: Table) -> Entry:
        """The checkpoint's entry of a table."""
        known = UNKNOWN if self._book is None else self._book.entry(identifier)
        return known if known.created_ms == table.created_ms else UNKNOWN
