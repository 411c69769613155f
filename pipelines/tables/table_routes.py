"""The table for the records of each source table: an existing one, a new one, none, or one that waits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from typing import TypeAlias

from paimon_table import Table, TableName
from paimon_table.errors import ConfigError
from paimon_table.side_by_side import all_done, waits_at_once
from pipelines.checkpoint.book import Cause
from pipelines.config.table_rules import TargetRule
from pipelines.tables.column_layout import names_decoded
from pipelines.tables.known_routes import is_ruleless, possible_rules
from pipelines.tables.merged_sources import check_sources, fed_by, source_words
from pipelines.tables.missing_names import refusal_of_names, warnings_of_names
from pipelines.tables.new_table import Rejected
from pipelines.tables.observed_columns import Seen
from pipelines.tables.opening import Opening
from pipelines.tables.paused_tables import FILLED
from pipelines.tables.record_notes import MessageKeyWarnings
from pipelines.tables.repeated_reads import check_repeated_reads
from pipelines.tables.table_failure import TableFailure, blaming
from pipelines.tables.writable_tables import check_same_mode, rule_plan
from pipelines.tables.writing_scope import WritingScope
from sinks.commit.positions import newest_position
from sinks.commit.table_sink import TableSink
from sources.changes import SourceTable
from sources.decode_target import Rejection

log = logging.getLogger(__name__)

_Opened: TypeAlias = tuple[TargetRule, TableSink]
"""A table that was opened or made, and its rule."""


class TableRoutes:
    """The routes of one pipeline from source tables to tables, and the open tables."""

    def __init__(self, scope: WritingScope, opening: Opening) -> None:
        self.sinks: dict[str, TableSink] = {}
        self.routes: dict[SourceTable, str | None] = {}
        self.rejections: dict[SourceTable, Rejection] = {}
        """Source tables without a route, with the reason."""
        self.topics: set[str] = set()
        """Topics that feed a table."""
        self.keyed_topics: set[str] = set()
        """Topics that have records with keys, or feed a table with a primary key."""
        self.rules: dict[str, TargetRule] = {}
        self.rule_of: dict[SourceTable, TargetRule] = {}
        """The rule of each source table; several rules may write one table."""
        self.key_warnings = MessageKeyWarnings()
        self._config = scope.config
        self._own = scope.own
        self._opening = opening
        self._beside = scope.beside
        self._paused = scope.paused
        self._only = scope.only
        self._ahead: dict[str, Future[_Opened]] = {}
        """Open tables without a route so far, by identifier."""

    def open_ahead(self, found: Iterable[tuple[SourceTable, Seen]]) -> None:
        """Open or create the tables of new source tables in parallel, for ``route`` to use them in turn.

        Only the first source table of each topic: its outcome affects the others.
        """
        works: dict[str, Callable[[], _Opened] | None] = {}
        topics: set[str] = set()
        for source, seen in found:
            led = None if source in self.routes else self._led(source)
            if led is not None:
                work = None if source.topic in topics else partial(self._open_with_looks, source, seen, *led)
                works.setdefault(str(led[0]), work)
            topics.add(source.topic)
        given = {identifier: work for identifier, work in works.items() if work is not None}
        opened = all_done(given.values(), waits_at_once(self._config.catalog.address))
        self._ahead = dict(zip(given, opened, strict=True))

    def _led(self, source: SourceTable) -> tuple[TableName, TargetRule] | None:
        """The table that ``_open`` opens or creates for a source table, and its rule; None if it does neither."""
        names = (source.database, source.schema, source.table, source.topic)
        rule = self._config.rule_for(*names)
        try:
            target = None if rule is None else rule.target(*names)
        except ConfigError:
            return None
        if rule is None or target is None or self._only not in (None, str(target)) or str(target) in self.sinks:
            return None
        if refusal_of_names(rule, source) is not None:
            return None
        paused = self._paused
        if paused is not None and str(target) in paused.tables | paused.ruleless:
            return None
        return None if rule.backfill and self._is_late(str(target), source.topic) else (target, rule)

    def route(self, source: SourceTable, seen: Seen) -> bool:
        """Find the route of a source table, or why it has none; returns whether that is new."""
        before = self.rejections.pop(source, None)
        known_sinks = len(self.sinks)
        try:
            self._open_or_reject(source, seen)
        except Rejected as rejected:
            self.rejections[source] = rejected.rejection
            if rejected.rejection == before:
                return False
            level = logging.INFO if rejected.waits else logging.WARNING
            log.log(level, "%s: %s", source.topic, rejected.rejection.reason)
            return True
        identifier = self.routes[source]
        if identifier is not None and identifier in self.sinks and self.sinks[identifier].table.schema.primary_keys:
            self.keyed_topics.add(source.topic)
        if len(self.sinks) > known_sinks:  # it may be a paused table
            self.rejections = {s: r for s, r in self.rejections.items() if not r.is_unmade}
        self.topics.add(source.topic)
        return True

    def _open_or_reject(self, source: SourceTable, seen: Seen) -> None:
        try:
            self._open(source, seen)
        except (ConfigError, TableFailure) as error:
            cause = error.error if isinstance(error, TableFailure) else error
            if self._beside is None or self._only is not None or not isinstance(cause, ConfigError):
                raise
            raise Rejected(Rejection(str(cause))) from error

    def _open(self, source: SourceTable, seen: Seen) -> None:
        names = (source.database, source.schema, source.table, source.topic)
        rule = self._config.rule_for(*names)
        if rule is None and self._only is not None:
            self.routes[source] = None
            return
        if rule is None:
            if self._config.otherwise.policy == "fail" or self._beside is not None:
                raise ConfigError(
                    f"{source.topic}: no rule of pipeline {self._config.name} matches table {source.table};"
                    " add a rule, or set `otherwise` to skip or create"
                )
            self.routes[source] = None
            log.info("source table %s: no rule matches, its records are skipped", source_words(fed_by(source)))
            return
        try:
            target = rule.target(*names)
        except ConfigError as error:
            raise Rejected(Rejection(str(error))) from error
        identifier = str(target)
        if self._only is not None and identifier != self._only:
            self.routes[source] = None
            return
        if self._paused is not None and identifier in self._paused.tables:
            self._paused.add_topics(identifier, [source.topic])
            self.routes[source] = identifier
            return
        unnamed = refusal_of_names(rule, source)
        if unnamed is not None:
            raise Rejected(Rejection(f"table {identifier}: {unnamed}", is_unmade=True))
        if rule.backfill and self._paused is not None and self._is_late(identifier, source.topic):
            self.rules.setdefault(identifier, rule)
            self._paused.pause(identifier, Cause.NEW, FILLED, 0, [source.topic], from_start=True, public_reason=FILLED)
            log.info("table %s: %s", identifier, FILLED)
            self.routes[source] = identifier
            return
        if self._paused is not None and identifier in self._paused.ruleless:
            self._resume_for_other_sources(identifier, source)
        with blaming(identifier):
            self._lead(source, seen, target, rule)

    def _resume_for_other_sources(self, identifier: str, source: SourceTable) -> None:
        """Return a table without a rule to the stream, for records of sources that have not fed it."""
        assert self._paused is not None
        pause, name = self._paused.book.pauses[identifier], TableName.of(identifier)
        position = newest_position(self._own.catalog.files(name).snapshots, self._config.name)
        fed = () if position is None else position.sources
        self._paused.resume(identifier, [one for one in fed if is_ruleless(self._config, name, one)])
        log.warning(
            "table %s now gets records of %s, and no rule matches its earlier sources (%s) now: it lacks "
            "their records from batch %d on",
            identifier,
            source_words(fed_by(source)),
            ", ".join(pause.topics) or "topics that are not known",
            pause.batch,
        )

    def _is_late(self, identifier: str, topic: str) -> bool:
        """Whether a table is new to the pipeline, and the stream has passed records that may belong to it."""
        if self._paused is None or identifier in self.sinks or self._paused.is_known(identifier):
            return False
        written = {str(name) for name in self._own.names()}
        return identifier not in written and self._paused.has_passed(topic)

    def _misses_older(self, sink: TableSink, source: SourceTable) -> bool:
        """Whether the stream has passed records of a source table that is new to a table with rows."""
        is_new_source = fed_by(source) not in sink.sources and bool(sink.sources)
        return is_new_source and self._paused is not None and self._paused.has_passed(source.topic)

    def _lead(self, source: SourceTable, seen: Seen, target: TableName, rule: TargetRule) -> None:
        """Route a source table to its table, which is opened or created."""
        identifier = str(target)
        if identifier not in self.sinks or identifier not in self.rules:
            first = self.rules.get(identifier, rule)
            ahead = self._ahead.pop(identifier, None)
            opened = self._open_or_create(source, seen, target, first) if ahead is None else ahead.result()
            self.rules[identifier], self.sinks[identifier] = opened
        sink = self.sinks[identifier]
        rule = rule.for_table(sink.table.schema)
        check_same_mode(identifier, rule, self.rules[identifier])
        if self._beside is None:
            check_repeated_reads(self._config, sink, fed_by(source))
        try:
            check_sources(source, sink, rule)
        except ConfigError as error:
            is_named = self._config.has_rule_for(source.database, source.schema, source.table, source.topic)
            if source.topic in self.topics or not is_named:  # no rule routes these records to this table
                raise Rejected(Rejection(str(error))) from error
            raise
        if rule.backfill and self._misses_older(sink, source):
            log.warning(
                "%s: table %s existed before records of %s came, and `backfill` fills only new tables. It lacks the"
                " records that the stream has passed (`tidemark replay FILE --table %s` reads them)",
                source.topic,
                identifier,
                source_words(fed_by(source)),
                identifier,
            )
        key = seen.key_columns or ()
        sink.feed(fed_by(source), key if {*key} <= {*seen.columns, *names_decoded(rule, sink.table)} else ())
        if self._beside is None:
            self.key_warnings.note(sink, rule, key, source.topic)
            for text in warnings_of_names(rule, source):
                log.warning("%s: %s", source.topic, text)
        self.routes[source] = identifier
        self.rule_of[source] = rule

    def _open_with_looks(self, source: SourceTable, seen: Seen, target: TableName, rule: TargetRule) -> _Opened:
        """``_open_or_create``, with the storage requests on which ``_lead`` then decides: the sink caches them."""
        opened = self._open_or_create(source, seen, target, rule)
        if self._beside is None:
            opened[1].read_by_others(fed_by(source))
        return opened

    def _open_or_create(self, source: SourceTable, seen: Seen, target: TableName, rule: TargetRule) -> _Opened:
        """Open a table, or create it from what a source table shows."""
        rule = self.rules.get(str(target), rule)
        feeds_one, is_keyed = source.topic in self.topics, source.topic in self.keyed_topics
        table = self._opening.open_or_create(target, rule, source, seen, feeds_one=feeds_one, is_keyed=is_keyed)
        return rule.for_table(table.schema), self._opening.sink(str(target), table)

    def learn_key(self, sink: TableSink, source: SourceTable, seen: Seen) -> bool:
        """Record the first message key of a source table that had none before; returns whether that is new."""
        key = seen.key_columns or ()
        if (
            not key
            or sink.sources.get(fed_by(source))
            or not {*key} <= {*names_decoded(self.rule_of[source], sink.table)}
        ):
            return False
        sink.feed(fed_by(source), key)
        self.key_warnings.note(sink, self.rule_of[source], key, source.topic)
        return True

    def take_continued(self, identifier: str) -> None:
        """Tell rules which columns continue in others."""
        schema = self.sinks[identifier].table.schema
        self.rules[identifier] = self.rules[identifier].for_table(schema)
        for source, name in self.routes.items():
            if name == identifier and source in self.rule_of:
                self.rule_of[source] = self.rule_of[source].for_table(schema)

    def topics_of(self, identifier: str) -> set[str]:
        """The topics that are known to feed a table."""
        topics = {source.topic for source, name in self.routes.items() if name == identifier}
        if identifier in self.sinks:
            topics |= {topic for topic, _ in self.sinks[identifier].position.offsets}
        return topics

    def reopen(self, identifier: str) -> Table | None:
        """Return a caught-up table to the stream, in its present state; None if it was never created."""
        table = self._own.catalog.find(TableName.of(identifier))
        if table is None:
            self.sinks.pop(identifier, None)
        elif identifier in self.sinks:
            rule = self.rules.get(identifier)
            followed = table if rule is None else rule_plan(self._config, rule, table, identifier).published()
            self.sinks[identifier] = self._opening.sink(identifier, followed)
        # Its next events are routed anew: the known facts about its sources may be from before its pause.
        self.routes = {source: name for source, name in self.routes.items() if name != identifier}
        return table

    def stops_with(self, identifier: str) -> bool:
        """Whether a failure of the table ends the pipeline; if its rule is unknown, whether any rule says so."""
        rule = self.rules.get(identifier)
        rules = possible_rules(self._config, TableName.of(identifier)) if rule is None else [rule]
        return "stop" in ({rule.on_table_failure for rule in rules} or {self._config.on_table_failure})
