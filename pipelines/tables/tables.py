"""Driver side: the target tables of one pipeline, and how what the events show changes them.

Observations come from decode tasks: a source table never seen, a new column, a wider type. Applying them creates tables
and publishes schema versions; the batch is then decoded again under the new plan.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from paimon_table import CommitKind, Table, TableName
from paimon_table.errors import ConfigError, SchemaChangeRefused, public_text
from paimon_table.surroundings import now_ms
from pipelines.checkpoint.book import Book, Cause
from pipelines.config.config import PipelineConfig
from pipelines.config.error_budget import Budget
from pipelines.config.table_rules import TargetRule
from pipelines.storage import catalog_of
from pipelines.tables.column_layout import names_decoded, stored_looks
from pipelines.tables.decode_targets import decode_target
from pipelines.tables.evolution import Evolution
from pipelines.tables.known_routes import (
    agreed_rule,
    is_led_elsewhere,
    known_sources,
    leading_rules,
    possible_rules,
    rules_for,
)
from pipelines.tables.merged_sources import check_sources, fed_by
from pipelines.tables.merged_sources import told as told_source
from pipelines.tables.new_table import Rejected
from pipelines.tables.observed_columns import Seen, merged
from pipelines.tables.opening import BesideStream, Opening
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.paused_tables import FILLED, PausedTables
from pipelines.tables.record_notes import (
    ControlNotes,
    EncodedColumns,
    MessageKeyWarnings,
    RecordShares,
    UnsentWarnings,
    VanishedColumns,
)
from pipelines.tables.repeated_reads import RepeatedOffsets, check_repeated_reads
from pipelines.tables.table_failure import TableFailure, TooManyBadRecords, blaming, way_on
from pipelines.tables.truncates import Truncates
from pipelines.tables.watermarks import Watermarks
from pipelines.tables.writable_tables import check_rule, check_same_mode, check_writable, rule_of_found
from pipelines.tables.written_tables import WrittenTable
from sinks.commit.positions import TopicPartition, checkpoint_user, newest_position
from sinks.commit.table_sink import RunTwice, TableSink, TopicIds
from sources.changes import Behind, Goal, NewestRow, Observation, Rejection, SourceTable, TopicLook, Truncation
from sources.formats import chosen_format
from sources.positions import ReadOffsets

log = logging.getLogger(__name__)

_OLD_ROWS_STAY = (
    "%s: written under another checkpoint; on_lost_checkpoint restart reads its topics again from `start`. Rows that"
    " the topics no longer hold stay, and the changelog repeats all changes. To hold only what the topics hold, drop"
    " the table first. Also drop it if it has no primary key or counts (sums): it would hold records twice"
)
_GOES_ON = (
    "%s: written under another checkpoint; on_lost_checkpoint restart continues at the offsets of `start`, which are"
    " not below what the table holds: keep the table, its rows are not read again"
)

_NO_RULE = "no rule matches its source tables: it misses records until one does, then resume it"

MOST_TAKEN_UP = 16
"""Known tables opened before the first batch. Where there are more, that takes longer than what it saves."""


class PipelineTables:
    """All tables that the pipeline writes, by identifier, and the route from source tables to them."""

    def __init__(
        self,
        config: PipelineConfig,
        commit_user: str,
        own: OwnTables | None = None,
        beside: BesideStream | None = None,
        paused: PausedTables | None = None,
        only: str | None = None,
        topics_to_read: Collection[str] = (),
        topic_ids: TopicIds = dict,
        first_own: int | None = None,
        book: Book | None = None,
    ) -> None:
        """``paused`` keeps the tables that are paused; without it none can be, and each that fails ends the run.

        With ``only`` all other tables are as if no rule led to them: for bringing up a single one from
        ``topics_to_read``. ``topic_ids`` gives
        the ids of the topics that are read. ``first_own`` is the first batch that no earlier process can have begun.
        ``book`` says how many commits of the pipeline the tables have.
        """
        self.config = config
        self._beside = beside
        self._own = own or OwnTables(config, catalog_of(config))
        self._paused = paused
        self._only = only
        self._topics_to_read = topics_to_read
        self.catalog = self._own.catalog
        self.commit_user = commit_user
        self.sinks: dict[str, TableSink] = {}
        self.routes: dict[SourceTable, str | None] = {}
        self.rejections: dict[SourceTable, Rejection] = {}
        """Source tables without a route, and why."""
        self._evolution = Evolution(config)
        self._opening = Opening(config, self._own, commit_user, self._evolution, beside, topic_ids, first_own, book)
        self._topics: set[str] = set()
        """Topics that feed a table."""
        self._keyed_topics: set[str] = set()
        """Those that have records with keys, or feed a table with a primary key."""
        self._rules: dict[str, TargetRule] = {}
        self._rule_of: dict[SourceTable, TargetRule] = {}
        """The rule of each source table; several rules may write one table."""
        self._vanished = VanishedColumns()
        self._repeated = RepeatedOffsets()
        self.unsent_warnings = UnsentWarnings()
        self.control_notes = ControlNotes()
        self._key_warnings = MessageKeyWarnings()
        self.record_shares, self.topic_shares = RecordShares(), RecordShares()
        """Those of tables, and of topics that lead to no table."""
        self.unreadable: dict[str, str] = {}
        """Topics that lead to no table and of which nearly all records are bad, and why."""
        self.truncates = Truncates()
        """Those of the batch under way."""
        self._watermarks = Watermarks()
        self._encoded = EncodedColumns(config.name, precision_tells_unit=config.source.format.precision_tells_unit)
        if beside is None:
            self._open_written()

    def find_formats(self, looks: Iterable[TopicLook]) -> bool:
        """Choose and keep the formats of topics by their looks; returns whether there were such topics.

        Raises ConfigError for a topic whose format cannot be told.
        """
        by_topic: dict[str, list[TopicLook]] = {}
        for look in looks:
            if look.topic not in self.formats:
                by_topic.setdefault(look.topic, []).append(look)
        chosen = {topic: name for topic, seen in by_topic.items() if (name := chosen_format(topic, seen)) is not None}
        if chosen:
            self._own.choose(chosen)
        for topic, name in chosen.items():
            log.info("topic %s: its first records are %s; the checkpoint keeps that", topic, name)
        return bool(chosen)

    @property
    def formats(self) -> Mapping[str, str]:
        """The formats that were chosen for topics, where the file leaves that to their first records."""
        return self._own.formats

    def apply(self, observations: Iterable[Observation]) -> bool:
        """Follow what was observed; returns whether anything changed, so that the batch must be decoded again.

        Raises ConfigError when a rule is missing, TableFailure when no rule can make a table or when a change of it
        would lose values.
        """
        changed, found = False, merged(observations)
        self._keyed_topics |= {source.topic for source, seen in found.items() if seen.key_columns}
        for source, seen in sorted(found.items(), key=lambda item: not item[1].key_columns):  # those with keys first
            if source not in self.routes:
                changed |= self._route(source, seen)
                if source in self.rejections or self.is_paused(self.routes[source]):
                    continue
                seen = self._additions(source, seen)
            identifier = self.routes[source]
            if identifier is not None and not self.is_paused(identifier):
                with blaming(identifier):
                    rule = self._rules[identifier]
                    of_source = self._rule_of[source]
                    stored = stored_looks(of_source, seen) if of_source.changes_rows else seen
                    if self._beside is None:
                        self._encoded.note(self.sinks[identifier], rule, stored)
                    self._encoded.note_units(self.sinks[identifier], rule, stored)
                    changed |= self._evolution.follow(self.sinks[identifier], rule, of_source, source, seen, now_ms())
                    changed |= self._learn_key(self.sinks[identifier], source, seen)
        self._encoded.tell()
        return changed

    def deleted_at(self, identifier: str) -> str | None:
        """The column with the time of deletes of a table that keeps deleted rows."""
        rule = self._rules.get(identifier)
        return None if rule is None else rule.deleted_at

    @property
    def event_time_columns(self) -> Mapping[int, str]:
        """Per target, by its index, the column from which its snapshots get a watermark.

        Readings beside the stream have none: what they read is older than what the stream has told.
        """
        marks = [rule.watermark if (rule := self._rules.get(name)) is not None else None for name in self.sinks]
        found = {index: mark.column for index, mark in enumerate(marks) if mark is not None}
        return found if self._beside is None else {}

    def next_watermarks(self, newest_ms: Mapping[tuple[int, str, int], int]) -> dict[str, int]:
        """The watermarks (ms) of tables behind a batch; ``newest_ms`` are its event times by target and partition."""
        names = list(self.sinks)
        of_table: dict[str, dict[TopicPartition, int]] = {}
        for (index, topic, partition), newest in newest_ms.items():
            of_table.setdefault(names[index], {})[topic, partition] = newest
        found: dict[str, int] = {}
        for name, times in of_table.items():
            mark = self._rules[name].watermark
            at_ms = None if mark is None else self._watermarks.next(name, mark, times)
            if at_ms is not None:
                found[name] = at_ms
        return found

    def note_truncations(
        self, truncations: Iterable[Truncation], read: Collection[TopicPartition], batch_id: int, started_ms: int | None
    ) -> bool:
        """Cut tables off at the TRUNCATE events that they have not passed; returns whether that is news.

        ``read`` are the partitions that the batch has records of. TableFailure for a table that cannot follow.
        """
        is_news = False
        for truncation in truncations:
            identifier = self.routes.get(truncation.source)
            if identifier is None or self.is_paused(identifier):
                continue
            sink, topic = self.sinks[identifier], truncation.source.topic
            is_passed = sink.has_passed({(topic, truncation.partition): truncation.offset + 1})
            if is_passed or sink.has_number(batch_id, started_ms):
                continue
            partitions = {partition for name, partition in (*read, *sink.position.offsets) if name == topic}
            is_news |= self.truncates.note(sink, truncation, partitions)
        return is_news

    @property
    def paused(self) -> frozenset[str]:
        """The paused tables: no batch of the stream writes them."""
        return frozenset() if self._paused is None else self._paused.tables

    @property
    def own(self) -> OwnTables:
        """What earlier runs have written."""
        return self._own

    @property
    def is_catch_up(self) -> bool:
        """Whether a single table is brought up to the stream."""
        return self._only is not None

    @property
    def topics_behind(self) -> frozenset[str]:
        """The topics that feed tables which are behind and, as far as is known, no other."""
        if self._paused is None or not self._paused.tables:
            return frozenset()
        paused = self._paused.tables
        fed = {topic for pause in self._paused.pauses.values() for topic in pause.topics}
        fed |= {source.topic for source, name in self.routes.items() if name in paused}
        return frozenset(fed - {s.topic for s, name in self.routes.items() if name not in paused and name is not None})

    @property
    def reasons_paused(self) -> dict[str, str]:
        """Why each of them is."""
        return {} if self._paused is None else {name: m.reason for name, m in self._paused.pauses.items()}

    def is_paused(self, identifier: str | None) -> bool:
        return identifier is not None and identifier in self.paused

    def pause(self, failure: TableFailure, batch_id: int, *, is_appended: bool = False) -> None:
        """Go on without a table that has failed in ``batch_id``; raises what it failed with where that is not wanted.

        It is paused durably when this returns; ``is_appended`` says that it has the rows of the batch. Where storage
        fails and no other table is left that could be written, the trouble is not that of one table; a pipeline that
        runs twice concerns them all. What the first batch of a checkpoint shows to be wrong in the file is for whoever
        has just started it.
        """
        identifier, error = failure.identifier, failure.error
        healthy = self.sinks.keys() - self.paused - {identifier}
        if self._paused is None or self.stops_with(identifier) or (failure.is_of_storage and not healthy):
            raise error
        if isinstance(error, RunTwice) or (isinstance(error, ConfigError) and self._paused.is_first_batch):
            raise error
        topics, cause = self.topics_of(identifier), Cause.FAILED
        if isinstance(error, TooManyBadRecords):
            topics, cause = topics | error.topics, Cause.BAD_RECORDS
            # Their records wait for the table from now on, which it takes a look at their rules to see.
            self.rejections = {s: r for s, r in self.rejections.items() if s.topic not in error.topics}
        reason = str(error)
        self._paused.pause(
            identifier,
            cause,
            reason,
            batch_id,
            topics,
            is_running=True,
            is_appended=is_appended,
            public_reason=public_text(error),
        )
        log.error(
            "table %s is paused from batch %d on, all others continue: %s. %s",
            identifier,
            batch_id,
            error,
            way_on(identifier),
        )

    def topics_of(self, identifier: str) -> set[str]:
        """The topics that are known to feed a table."""
        topics = {source.topic for source, name in self.routes.items() if name == identifier}
        if identifier in self.sinks:
            topics |= {topic for topic, _ in self.sinks[identifier].position.offsets}
        return topics

    def reopen(self, identifier: str) -> None:
        """A table that has caught up is part of the stream again, as it is now."""
        if identifier in self.sinks:
            table = self.catalog.load(TableName.of(identifier))
            rule = self._rules.get(identifier)
            self.sinks[identifier] = self._opening.sink(
                identifier, table if rule is None else self._opening.followed(rule, table, identifier)
            )
        # Its next events lead to it: what is known of its sources may be from before it was paused.
        self.routes = {source: name for source, name in self.routes.items() if name != identifier}

    def stops_with(self, identifier: str) -> bool:
        """Whether a failure of the table ends the pipeline; where its rule is not known, whether any says so."""
        rule = self._rules.get(identifier)
        rules = possible_rules(self.config, TableName.of(identifier)) if rule is None else [rule]
        return "stop" in ({rule.on_table_failure for rule in rules} or {self.config.on_table_failure})

    def check_dropped(self, rows: Iterable[NewestRow]) -> None:
        """TableFailure for a table whose source has lost a column, where its rule says that this pauses it."""
        for source, absent in self._vanished.lacking(rows).items():
            identifier = self.routes.get(source)
            if identifier is None or self.is_paused(identifier):
                continue
            rule, is_only = self._rules[identifier], len(self.sinks[identifier].sources) <= 1
            lost = self._vanished.lost(rule, absent, is_only_source=is_only)
            if lost and rule.schema_changes.drop == "pause":
                text = (
                    f"{source.topic}: its events have no column {', '.join(lost)} any more, and"
                    " `schema_changes: {drop: pause}`; say keep_null and resume to have NULL there from now on"
                )
                raise TableFailure(identifier, SchemaChangeRefused(text).without_values())

    def note_newest(self, rows: Iterable[NewestRow]) -> None:
        """Tell of columns that the newest rows of a batch lack, once the tables have all that its events show."""
        for source, absent in self._vanished.lacking(rows).items():
            identifier = self.routes.get(source)
            if identifier is not None:
                is_only = len(self.sinks[identifier].sources) <= 1
                self._vanished.note(source.topic, identifier, self._rules[identifier], absent, is_only_source=is_only)

    def note_offsets(
        self,
        batch_id: int,
        started_ms: int | None,
        fed: Mapping[str, Collection[TopicPartition]],
        read: Iterable[Mapping[TopicPartition, ReadOffsets]],
    ) -> None:
        """Warn of records that dump files bring again or late.

        ``fed`` has the partitions that feed each table, ``read`` what each task has read of them.
        """
        if self.config.source.files is None or self._beside is not None:
            return
        known: dict[TopicPartition, ReadOffsets] = {}
        for place, part in (item for of_task in read for item in of_task.items()):
            known[place] = known[place] + part if place in known else part
        for identifier, places in fed.items():
            if identifier in self.sinks and not self.is_paused(identifier):
                of_table = {place: known[place] for place in places}
                self._repeated.note(batch_id, started_ms, self.sinks[identifier], of_table)

    def will_commit(self, identifiers: Iterable[str]) -> None:
        """Note durably what is about to be written, so that its loss is noticed."""
        self._own.will_commit((identifier, self.sinks[identifier].table) for identifier in identifiers)

    def fed_by_records(self, topic: str, source: SourceTable | None) -> set[str | None]:
        """The tables that records of a source table are for, None for skipped ones; none where it is not known.

        Records that name no source table are for all that their topic feeds.
        """
        if source is None:
            return {name for known, name in self.routes.items() if known.topic == topic}
        return {self.routes[source]} if source in self.routes else set()

    @property
    def limits(self) -> Mapping[str, Budget | None]:
        """How many bad records each table may have whose rule is known."""
        return {name: rule.max_bad_records for name, rule in self._rules.items()}

    @property
    def is_retry(self) -> bool:
        """Whether records are read again whose bad ones are judged one by one."""
        return self._beside is not None

    def decode_targets(self) -> dict[SourceTable, Goal]:
        """What the decoder needs per source table."""
        goals: dict[SourceTable, Goal] = dict(self.rejections)
        paused, at_ms = self.paused, now_ms()
        for source, identifier in self.routes.items():
            if identifier is None:
                goals[source] = None
            elif identifier in paused:
                goals[source] = Behind()
            else:
                sink, rule = self.sinks[identifier], self._rules[identifier]
                limits = self._evolution.limits(sink, rule, at_ms)
                is_retry = self._beside is not None and self._only is None
                of_source = self._rule_of[source]
                with blaming(identifier):
                    goals[source] = decode_target(sink, source, of_source, rule, limits, at_ms, is_retry=is_retry)
        return goals

    def _route(self, source: SourceTable, seen: Seen) -> bool:
        """Find the route of a source table, or why it has none; returns whether that is news."""
        before = self.rejections.pop(source, None)
        known_sinks = len(self.sinks)
        try:
            self._open_as_told(source, seen)
        except Rejected as rejected:
            self.rejections[source] = rejected.rejection
            if rejected.rejection == before:
                return False
            level = logging.INFO if rejected.waits else logging.WARNING
            log.log(level, "%s: %s", source.topic, rejected.rejection.reason)
            return True
        identifier = self.routes[source]
        if identifier is not None and identifier in self.sinks and self.sinks[identifier].table.schema.primary_keys:
            self._keyed_topics.add(source.topic)
        if len(self.sinks) > known_sinks:  # it may be the table that others had to do without
            self.rejections = {s: r for s, r in self.rejections.items() if not r.is_unmade}
        self._topics.add(source.topic)
        return True

    def _open_as_told(self, source: SourceTable, seen: Seen) -> None:
        try:
            self._open(source, seen)
        except (ConfigError, TableFailure) as error:
            cause = error.error if isinstance(error, TableFailure) else error
            if self._beside is None or self._only is not None or not isinstance(cause, ConfigError):
                raise
            raise Rejected(Rejection(str(cause))) from error

    def _open(self, source: SourceTable, seen: Seen) -> None:
        names = (source.database, source.schema, source.table, source.topic)
        rule = self.config.rule_for(*names)
        if rule is None and self._only is not None:
            self.routes[source] = None
            return
        if rule is None:
            if self.config.otherwise.policy == "fail" or self._beside is not None:
                raise ConfigError(
                    f"{source.topic}: no rule of pipeline {self.config.name} matches table {source.table};"
                    " add a rule, or set `otherwise` to skip or create"
                )
            self.routes[source] = None
            log.info("source table %s: no rule matches, its records are skipped", told_source(fed_by(source)))
            return
        try:
            target = rule.target(*names)
        except ConfigError as error:
            raise Rejected(Rejection(str(error))) from error
        identifier = str(target)
        if self._only is not None and identifier != self._only:
            self.routes[source] = None
            return
        if self._paused is not None and identifier in self.paused:
            self._paused.add_topics(identifier, [source.topic])
            self.routes[source] = identifier
            return
        if rule.backfill and self._paused is not None and self._is_late(identifier, source.topic):
            self._rules.setdefault(identifier, rule)
            self._paused.pause(identifier, Cause.NEW, FILLED, 0, [source.topic], from_start=True, public_reason=FILLED)
            log.info("table %s: %s", identifier, FILLED)
            self.routes[source] = identifier
            return
        if self._paused is not None and identifier in self._paused.ruleless:
            self._take_from_elsewhere(identifier, source)
        with blaming(identifier):
            self._lead(source, seen, target, rule)

    def _take_from_elsewhere(self, identifier: str, source: SourceTable) -> None:
        """Let a table without a rule into the stream for records of other sources than those that fed it."""
        assert self._paused is not None
        pause, name = self._paused.book.pauses[identifier], TableName.of(identifier)
        position = newest_position(self.catalog.files(name).snapshots, self.config.name)
        fed = () if position is None else position.sources
        self._paused.resume(identifier, [one for one in fed if is_led_elsewhere(self.config, name, one)])
        log.warning(
            "table %s now gets records of %s, and no rule matches its earlier sources (%s) any more: it lacks their"
            " records from batch %d on",
            identifier,
            told_source(fed_by(source)),
            ", ".join(pause.topics) or "topics that are not known",
            pause.batch,
        )

    def _is_late(self, identifier: str, topic: str) -> bool:
        """Whether a table is new to the pipeline, and the stream has passed records that may be its own."""
        if self._paused is None or identifier in self.sinks or self._paused.is_known(identifier):
            return False
        written = {str(name) for name in self._own.names()}
        return identifier not in written and self._paused.has_passed(topic)

    def _misses_older(self, sink: TableSink, source: SourceTable) -> bool:
        """Whether the stream has passed records of a source table that is new to a table with rows."""
        is_new_source = fed_by(source) not in sink.sources and bool(sink.sources)
        return is_new_source and self._paused is not None and self._paused.has_passed(source.topic)

    def _lead(self, source: SourceTable, seen: Seen, target: TableName, rule: TargetRule) -> None:
        """Lead a source table to its table, which is opened or made."""
        identifier = str(target)
        if identifier not in self.sinks or identifier not in self._rules:
            first = self._rules.setdefault(identifier, rule)
            table = self._opening.open_or_create(
                target,
                first,
                source,
                seen,
                feeds_one=source.topic in self._topics,
                is_keyed=source.topic in self._keyed_topics,
            )
            self._rules[identifier] = first.for_table(table.schema)
            self.sinks[identifier] = self._opening.sink(identifier, table)
        sink = self.sinks[identifier]
        rule = rule.for_table(sink.table.schema)
        check_same_mode(identifier, rule, self._rules[identifier])
        if self._beside is None:
            check_repeated_reads(self.config, sink, fed_by(source))
        try:
            check_sources(source, sink, rule)
        except ConfigError as error:
            is_named = self.config.has_rule_for(source.database, source.schema, source.table, source.topic)
            if source.topic in self._topics or not is_named:  # nobody has asked for these records in this table
                raise Rejected(Rejection(str(error))) from error
            raise
        if rule.backfill and self._misses_older(sink, source):
            log.warning(
                "%s: table %s existed before records of %s came, and `backfill` fills only new tables: it lacks the"
                " records that the stream has passed (`tidemark replay FILE --table %s` reads them)",
                source.topic,
                identifier,
                told_source(fed_by(source)),
                identifier,
            )
        key = seen.key_columns or ()
        sink.feed(fed_by(source), key if {*key} <= {*seen.columns, *names_decoded(rule, sink.table)} else ())
        if self._beside is None:
            self._key_warnings.note(sink, rule, key, source.topic)
        self.routes[source] = identifier
        self._rule_of[source] = rule

    def _learn_key(self, sink: TableSink, source: SourceTable, seen: Seen) -> bool:
        """Take the first message key of a source table that had none before; returns whether that is news."""
        key = seen.key_columns or ()
        if (
            not key
            or sink.sources.get(fed_by(source))
            or not {*key} <= {*names_decoded(self._rule_of[source], sink.table)}
        ):
            return False
        sink.feed(fed_by(source), key)
        self._key_warnings.note(sink, self._rule_of[source], key, source.topic)
        return True

    def _open_written(self) -> None:
        """Open the tables written in earlier runs: those that may have to be compacted without new rows, and a few.

        That is, in a batch that has none for them, or because a process ended before it had compacted what it had
        appended. What fed the few is known without events. Tables that no rule writes any more are left alone.
        """
        gone_on_with: list[tuple[str, Table]] = []
        failures: list[TableFailure] = []
        paused, owner = self.paused, checkpoint_user(self.commit_user)
        ruleless = frozenset() if self._paused is None else self._paused.ruleless

        def skip(name: TableName, error: Exception) -> None:
            if str(name) not in paused and str(name) not in ruleless and self._only in (None, str(name)):
                failures.append(TableFailure(str(name), error))

        for found in self._own.written(skip):
            if str(found.name) in paused | ruleless or self._only not in (None, str(found.name)):
                continue
            if found.position.commit_user != owner and self.config.on_lost_checkpoint == "restart":
                at_or_beyond = self.config.source.reader.begins_at_or_beyond(found.position.offsets)
                log.warning(_GOES_ON if at_or_beyond else _OLD_ROWS_STAY, found.name)
            topics = {topic for topic, _ in found.position.offsets}
            rules = rules_for(self.config, found.name, sorted(topics))
            if self._only is not None and not self._is_led(found, topics):
                raise TableFailure(str(found.name), ConfigError(_NO_RULE))
            if not rules:
                continue
            self._topics |= topics
            identifier = str(found.name)
            self._rules[identifier] = rules[0]  # which says what its failure does
            try:
                with blaming(identifier):
                    gone_on_with.append((identifier, self._open_found(found, rules)))
            except TableFailure as failure:
                failures.append(failure)
                if agreed_rule(rules) is None:
                    self._rules.pop(identifier, None)
        self._own.go_on_with(gone_on_with)
        self._pause_unopened(failures, is_any_open=bool(gone_on_with))

    def _is_led(self, found: WrittenTable, topics: Collection[str]) -> bool:
        """Whether a rule leads to a table what has fed it, or what its pause says that it is to read."""
        topics = {*topics, *self._topics_to_read}
        return bool(leading_rules(self.config, found.name, found.position.sources, topics))

    def _open_found(self, found: WrittenTable, rules: Sequence[TargetRule]) -> Table:
        identifier = str(found.name)
        table = opened = self.catalog.load(found.name)
        if table.schema.primary_keys:
            self._keyed_topics |= {topic for topic, _ in found.position.offsets}
        rule = agreed_rule([each.for_table(table.schema) for each in rules])
        if rule is not None:
            self._rules[identifier] = rule
            table = self._opening.followed(rule, table, identifier)
        else:
            del self._rules[identifier]
            check_writable(table, identifier)
            told = rule_of_found(self.config, found, table)
            if told is not None:
                check_rule(told, table, identifier, self.config.name)
        is_unfinished = found.kind == CommitKind.APPEND and found.position.commit_user == checkpoint_user(
            self.commit_user
        )
        if table.options.compacts_without_rows or (is_unfinished and table.options.needs_lookup):
            self.sinks[identifier] = self._opening.sink(identifier, table)
        if rule is not None and len(self.sinks) < MOST_TAKEN_UP:
            self._take_up(found, rule, table)
        return opened

    def _pause_unopened(self, failures: Sequence[TableFailure], *, is_any_open: bool) -> None:
        """Begin without tables that are damaged; a file that does not fit its tables is for who has started it."""
        for failure in failures:
            is_request = isinstance(failure.error, ConfigError)
            if self._paused is None or self.stops_with(failure.identifier) or is_request or not is_any_open:
                raise failure.error
            batch_id, has_begun = self._paused.next_batch
            topics = self.topics_of(failure.identifier)
            reason = str(failure.error)
            self._paused.pause(
                failure.identifier,
                Cause.FAILED,
                reason,
                batch_id,
                topics,
                is_running=has_begun,
                public_reason=public_text(failure.error),
            )
            log.error("table %s cannot be opened, all others continue: %s", failure.identifier, reason)

    def _take_up(self, found: WrittenTable, rule: TargetRule, table: Table) -> None:
        """Route what fed the table under this checkpoint, so that its first batch is not decoded twice.

        Where that takes a decision it is left to the events, as if nothing were known.
        """
        known = known_sources(self.config, found.name, found.position.sources)
        sources = {source: own_rule.for_table(table.schema) for source, own_rule in known.items()}
        is_declared = {*rule.column_types, *(name for own in sources.values() for name in own.columns.computed)} <= {
            *table.schema.column_names
        }
        if not sources or not is_declared or found.position.commit_user != checkpoint_user(self.commit_user):
            return
        identifier = str(found.name)
        sink = self.sinks.get(identifier) or self._opening.sink(identifier, table)
        try:
            for source, own_rule in sources.items():
                check_sources(source, sink, own_rule)
        except ConfigError:
            return
        self.sinks[identifier] = sink
        for source, own_rule in sources.items():
            self._key_warnings.note(sink, own_rule, sink.sources[fed_by(source)], source.topic)
            self.routes[source], self._rule_of[source] = identifier, own_rule

    def _additions(self, source: SourceTable, seen: Seen) -> Seen:
        """Only the columns that the table lacks; a type guessed without knowing the table says nothing about it."""
        identifier = self.routes[source]
        if identifier is None:
            return Seen({}, None)
        present = {*names_decoded(self._rule_of[source], self.sinks[identifier].table)}
        return replace(seen, columns={name: t for name, t in seen.columns.items() if name not in present})
