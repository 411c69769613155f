"""The tables that earlier runs of a pipeline wrote, opened at its start."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

from paimon_table import CommitKind, Table, TableName
from paimon_table.errors import ConfigError
from paimon_table.side_by_side import all_done, waits_at_once
from pipelines.config.table_rules import TargetRule
from pipelines.tables.known_routes import (
    agreed_rule,
    known_sources,
    leading_rules,
    rules_for,
)
from pipelines.tables.merged_sources import check_sources, fed_by
from pipelines.tables.opening import Opening
from pipelines.tables.table_failure import TableFailure, blaming
from pipelines.tables.table_routes import TableRoutes
from pipelines.tables.writable_tables import check_writable, rule_of_found, rule_plan
from pipelines.tables.writing_scope import WritingScope
from pipelines.tables.written_tables import WrittenTable
from sinks.commit.positions import checkpoint_user
from sinks.commit.table_sink import TableSink

log = logging.getLogger(__name__)

_OLD_ROWS_STAY = (
    "%s: written under another checkpoint; on_lost_checkpoint restart reads its topics again from `start`. Rows "
    "that the topics no longer hold stay, and the changelog repeats all changes. To keep only what the topics "
    "hold, drop the table first. Also drop it if it has no primary key or aggregates: it would count records twice"
)
_GOES_ON = (
    "%s: written under another checkpoint; on_lost_checkpoint restart continues at the offsets of `start`. They "
    "are not below the table's position, so Tidemark does not reread its rows: keep the table"
)

_NO_RULE = "no rule matches its source tables: it misses records until one does, then resume it"

MOST_TAKEN_UP = 16
"""The most known tables that are opened before the first batch: more would cost more time than they save."""


@dataclass(frozen=True, slots=True)
class _Opened:
    """An earlier table, with what storage and rule say about it."""

    loaded: Table
    rule: TargetRule | None
    """None if several rules disagree about it."""
    table: Table
    """The table with the changes of its rule."""
    sink: TableSink | None
    """Set if the table may need a compaction without new rows."""


class EarlierTables:
    """Opens these tables, once."""

    def __init__(self, scope: WritingScope, opening: Opening, routes: TableRoutes) -> None:
        """``routes`` get the opened tables."""
        self.uncompacted: dict[str, Table] = {}
        """Tables with rows of killed slices, commands or checkpoints that are not compacted yet."""
        self._config = scope.config
        self._commit_user = scope.commit_user
        self._own = scope.own
        self._opening = opening
        self._paused = scope.paused
        self._only = scope.only
        self._topics_to_read = scope.topics_to_read
        self._routes = routes

    def open(self) -> None:
        """Open tables of earlier runs: those that may need a compaction without new rows, and a few others.

        A table needs one in a batch without rows for it, or if a process ended before it had compacted its rows. The
        sources of the few others are known without events. Tables without a rule are skipped.
        """
        gone_on_with: list[tuple[str, Table]] = []
        failures: list[TableFailure] = []
        led: list[tuple[WrittenTable, list[TargetRule]]] = []
        paused = frozenset() if self._paused is None else self._paused.tables
        owner = checkpoint_user(self._commit_user)
        ruleless = frozenset() if self._paused is None else self._paused.ruleless

        def skip(name: TableName, error: Exception) -> None:
            if str(name) not in paused and str(name) not in ruleless and self._only in (None, str(name)):
                failures.append(TableFailure(str(name), error))

        for found in self._own.written(skip):
            if str(found.name) in paused | ruleless or self._only not in (None, str(found.name)):
                continue
            if found.position.commit_user != owner and self._config.on_lost_checkpoint == "restart":
                at_or_beyond = self._config.source.reader.begins_at_or_beyond(found.position.offsets)
                log.warning(_GOES_ON if at_or_beyond else _OLD_ROWS_STAY, found.name)
            topics = {topic for topic, _ in found.position.offsets}
            rules = rules_for(self._config, found.name, sorted(topics))
            if self._only is not None and not self._is_led(found, topics):
                raise TableFailure(str(found.name), ConfigError(_NO_RULE))
            if not rules:
                continue
            self._routes.topics |= topics
            led.append((found, rules))
        opens = [partial(self._open_found, found, rules) for found, rules in led]
        for (found, rules), opened in zip(
            led, all_done(opens, waits_at_once(self._config.catalog.address)), strict=True
        ):
            identifier = str(found.name)
            self._routes.rules[identifier] = rules[0]  # its rule decides what its failure does
            try:
                with blaming(identifier):
                    self._take(found, opened.result())
                    gone_on_with.append((identifier, opened.result().loaded))
            except TableFailure as failure:
                failures.append(failure)
                if agreed_rule(rules) is None:
                    self._routes.rules.pop(identifier, None)
        self._own.go_on_with(gone_on_with)
        self._pause_unopened(failures, is_any_open=bool(gone_on_with))

    def _is_led(self, found: WrittenTable, topics: Collection[str]) -> bool:
        """Whether a rule routes a table's earlier source tables, or those that its pause names, to it."""
        topics = {*topics, *self._topics_to_read}
        return bool(leading_rules(self._config, found.name, found.position.sources, topics))

    def _open_found(self, found: WrittenTable, rules: Sequence[TargetRule]) -> _Opened:
        """Open a table, in parallel with others."""
        identifier = str(found.name)
        table = loaded = self._own.catalog.load(found.name)
        if loaded.schema.primary_keys:
            self._routes.keyed_topics.update(topic for topic, _ in found.position.offsets)
        rule = agreed_rule([each.for_table(loaded.schema) for each in rules])
        if rule is not None:
            table = rule_plan(self._config, rule, loaded, identifier).published()
        else:
            check_writable(loaded, identifier)
            found_rule = rule_of_found(self._config, found, loaded)
            if found_rule is not None:
                rule_plan(self._config, found_rule, loaded, identifier)
        is_due = table.options.compacts_without_rows or (_awaits(found, table) and self._is_of_stream(found))
        return _Opened(loaded, rule, table, self._opening.sink(identifier, table) if is_due else None)

    def _is_of_stream(self, found: WrittenTable) -> bool:
        """Whether the newest rows are from a batch of the stream and not compacted yet."""
        return found.position.commit_kind == CommitKind.APPEND and found.position.writer == self._commit_user

    def _take(self, found: WrittenTable, opened: _Opened) -> None:
        """Register an open table with the routes."""
        identifier = str(found.name)
        if opened.rule is None:
            del self._routes.rules[identifier]
        else:
            self._routes.rules[identifier] = opened.rule
        if opened.sink is not None:
            self._routes.sinks[identifier] = opened.sink
        if _awaits(found, opened.table) and not self._is_of_stream(found):
            self.uncompacted[identifier] = opened.table
        if opened.rule is not None and len(self._routes.sinks) < MOST_TAKEN_UP:
            self._take_up(found, opened.rule, opened.table)

    def _pause_unopened(self, failures: Sequence[TableFailure], *, is_any_open: bool) -> None:
        """Start without damaged tables; a file that does not fit its tables stops the start."""
        for failure in failures:
            is_request = isinstance(failure.error, ConfigError)
            if self._paused is None or self._routes.stops_with(failure.identifier) or is_request or not is_any_open:
                raise failure.error
            batch_id, has_begun = self._paused.next_batch
            topics = self._routes.topics_of(failure.identifier)
            self._paused.pause_failed(failure.identifier, failure.error, batch_id, topics, is_running=has_begun)
            log.error("table %s cannot be opened, all others continue: %s", failure.identifier, failure.error)

    def _take_up(self, found: WrittenTable, rule: TargetRule, table: Table) -> None:
        """Route the sources that fed the table under this checkpoint, so that its first batch is not decoded twice.

        Routes that need a decision are left to the events.
        """
        known = known_sources(self._config, found.name, found.position.sources)
        sources = {source: own_rule.for_table(table.schema) for source, own_rule in known.items()}
        is_declared = {*rule.column_types, *(name for own in sources.values() for name in own.columns.computed)} <= {
            *table.schema.column_names
        }
        if not sources or not is_declared or found.position.commit_user != checkpoint_user(self._commit_user):
            return
        identifier = str(found.name)
        sink = self._routes.sinks.get(identifier) or self._opening.sink(identifier, table)
        try:
            for source, own_rule in sources.items():
                check_sources(source, sink, own_rule)
        except ConfigError:
            return
        self._routes.sinks[identifier] = sink
        for source, own_rule in sources.items():
            self._routes.key_warnings.note(sink, own_rule, sink.sources[fed_by(source)], source.topic)
            self._routes.routes[source], self._routes.rule_of[source] = identifier, own_rule


def _awaits(found: WrittenTable, table: Table) -> bool:
    """Whether readers of the changelog wait for a compaction of the table."""
    return found.awaits_compaction and table.options.needs_lookup
