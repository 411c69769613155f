"""The target tables of one pipeline on the driver, and their changes from what events show.

Decode tasks report observations: an unknown source table, a new column, a wider type. Applying them creates tables and
publishes schema versions; the batch is then decoded again under the new plan.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from paimon_table import Table
from paimon_table.errors import ConfigError, MalformedRecord, SchemaChangeRefused
from paimon_table.surroundings import now_ms
from pipelines.checkpoint.book import Book
from pipelines.config.config import PipelineConfig
from pipelines.config.error_budget import Budget
from pipelines.config.table_rules import TargetRule
from pipelines.storage import catalog_of
from pipelines.tables.column_changes import nullable_changes
from pipelines.tables.column_layout import layout_of, stored_looks
from pipelines.tables.decode_targets import decode_target
from pipelines.tables.earlier_tables import EarlierTables
from pipelines.tables.evolution import Evolution, check_droppable
from pipelines.tables.merged_sources import feeds_alone, remembered
from pipelines.tables.observed_columns import Seen, merged
from pipelines.tables.opening import Opening
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.paused_tables import PausedTables
from pipelines.tables.record_notes import (
    ControlNotes,
    EncodedColumns,
    LateRowNotes,
    RecordShares,
    UnsentWarnings,
    VanishedColumns,
)
from pipelines.tables.relied_columns import awaited_columns, check_hidden, check_relied
from pipelines.tables.repeated_reads import RepeatedOffsets
from pipelines.tables.table_failure import KeyChanged, TableFailure, TooManyBadRecords, blaming, way_on
from pipelines.tables.table_routes import TableRoutes
from pipelines.tables.truncates import Truncates
from pipelines.tables.watermarks import Watermarks
from pipelines.tables.writing_scope import WritingScope
from sinks.commit.own_position import OwnReading
from sinks.commit.positions import TopicPartition
from sinks.commit.table_sink import RunTwice, TableSink, TopicIds
from sinks.exchange.target import Target
from sources.changes import NewestRow, Observation, SourceTable, TopicLook, Truncation
from sources.column_sources import OPTION, ColumnSources
from sources.decode_target import Behind, Goal, Rejection
from sources.formats import chosen_format
from sources.positions import ReadOffsets
from sources.wording import sentences

log = logging.getLogger(__name__)


class PipelineTables:
    """All tables that the pipeline writes, by identifier, and the route from source tables to them."""

    def __init__(
        self,
        config: PipelineConfig,
        commit_user: str,
        own: OwnTables | None = None,
        beside: OwnReading | None = None,
        paused: PausedTables | None = None,
        only: str | None = None,
        topics_to_read: Collection[str] = (),
        topic_ids: TopicIds = dict,
        first_own: int | None = None,
        book: Book | None = None,
    ) -> None:
        """See ``WritingScope``."""
        self.config = config
        self._beside = beside
        self._own = own or OwnTables(config, catalog_of(config))
        self._paused = paused
        self._only = only
        self.catalog = self._own.catalog
        self.commit_user = commit_user
        self._evolution = Evolution(config, is_beside=beside is not None)
        scope = WritingScope(
            config, commit_user, self._own, beside, paused, only, topics_to_read, topic_ids, first_own, book
        )
        self._opening = Opening(scope, self._evolution)
        self._routing = TableRoutes(scope, self._opening)
        self._vanished = VanishedColumns()
        self._repeated = RepeatedOffsets()
        self._met: dict[SourceTable, set[str]] = {}
        """The source tables whose first records arrived in this process, with all their columns."""
        self.unsent_warnings = UnsentWarnings()
        self.late_row_notes = LateRowNotes()
        self.control_notes = ControlNotes()
        self.record_shares, self.topic_shares = RecordShares(), RecordShares()
        """The shares of bad records of tables, and of topics without a table."""
        self.unreadable: dict[str, str] = {}
        """Topics without a table of which nearly all records are bad, with the reason."""
        self.uncompacted: Mapping[str, Table] = {}
        """Tables with rows that an earlier process left uncompacted."""
        self.truncates = Truncates()
        """The truncates of the running batch."""
        self._watermarks = Watermarks()
        self._encoded = EncodedColumns(config.name, precision_tells_unit=config.source.format.precision_tells_unit)
        if beside is None:
            earlier = EarlierTables(scope, self._opening, self._routing)
            earlier.open()
            self.uncompacted = earlier.uncompacted

    @property
    def sinks(self) -> dict[str, TableSink]:
        """The open tables, by identifier."""
        return self._routing.sinks

    @property
    def routes(self) -> dict[SourceTable, str | None]:
        """The target of each source table's records; None: none."""
        return self._routing.routes

    @property
    def rejections(self) -> dict[SourceTable, Rejection]:
        """Source tables without a route, with the reason."""
        return self._routing.rejections

    @property
    def met(self) -> dict[SourceTable, Collection[str] | None]:
        """The known source tables with their columns; None if an earlier run saw their first records."""
        return {**dict.fromkeys(self.routes), **self._met}

    def topics_of(self, identifier: str) -> set[str]:
        """The topics that are known to feed a table."""
        return self._routing.topics_of(identifier)

    def reopen(self, identifier: str) -> Table | None:
        """See ``TableRoutes``."""
        return self._routing.reopen(identifier)

    def stops_with(self, identifier: str) -> bool:
        """See ``TableRoutes``."""
        return self._routing.stops_with(identifier)

    def find_formats(self, looks: Iterable[TopicLook]) -> bool:
        """Choose and store the formats of topics by their looks; returns whether there were such topics.

        Raises ConfigError for a topic whose format is unclear.
        """
        by_topic: dict[str, list[TopicLook]] = {}
        for look in looks:
            if look.topic not in self.formats:
                by_topic.setdefault(look.topic, []).append(look)
        chosen = {topic: name for topic, seen in by_topic.items() if (name := chosen_format(topic, seen)) is not None}
        if chosen:
            self._own.choose(chosen)
        for topic, name in chosen.items():
            log.info("topic %s: its first records are %s; the checkpoint records this format", topic, name)
        return bool(chosen)

    @property
    def formats(self) -> Mapping[str, str]:
        """The chosen formats of topics, if the file leaves them to the first records."""
        return self._own.formats

    @property
    def earlier_formats(self) -> Mapping[str, str]:
        """The formats that the tables store, if the file leaves formats to the first records."""
        return self._own.earlier_formats if self.config.source.format.traits.finds_formats else {}

    def apply(self, observations: Iterable[Observation], newest: Iterable[NewestRow] = ()) -> bool:
        """Follow the observations; returns whether anything changed, so that the batch must be decoded again.

        ``newest`` are the newest rows of the same records. Raises ConfigError if a rule is missing, TableFailure if no
        rule can create a table or if a change to a table would lose values.
        """
        changed, found = False, merged(observations, self._continues_with_keys)
        hidden = defaultdict[SourceTable, set[str]](set)
        for row in newest:
            hidden[row.source] |= row.hidden
        self._routing.keyed_topics |= {source.topic for source, seen in found.items() if seen.key_columns}
        with_keys_first = sorted(found.items(), key=lambda item: not item[1].key_columns)
        self._routing.open_ahead(with_keys_first)
        for source, seen in with_keys_first:
            is_new = source not in self.routes
            if is_new or source in self._met:
                self._met.setdefault(source, set()).update(seen.columns, seen.key_only, hidden[source])
            if is_new:
                changed |= self._routing.route(source, seen)
            identifier = self.routes.get(source)
            if identifier is None or self.is_paused(identifier):
                continue
            with blaming(identifier):
                sink, rule = self.sinks[identifier], self._routing.rules[identifier]
                of_source = self._routing.rule_of[source]
                if of_source.columns.hides and not is_new:
                    is_first = self._vanished.newest(source) is None
                    check_hidden(rule, of_source, sink, source, seen, hidden[source], is_first=is_first)
                stored = stored_looks(of_source, seen) if of_source.changes_rows else seen
                if self._beside is None:
                    self._encoded.note(sink, rule, stored)
                self._encoded.note_units(sink, rule, stored)
                if is_new:
                    continue  # decoded for the table, the records show what it lacks
                if self._evolution.follow(sink, rule, of_source, source, seen, now_ms()):
                    changed = True
                    self._routing.take_continued(identifier)
                changed |= self._routing.learn_key(sink, source, seen)
        self._encoded.tell()
        return changed

    def _continues_with_keys(self, source: SourceTable) -> bool:
        rule = self.config.rule_for(source.database, source.schema, source.table, source.topic)
        return rule is not None and rule.schema_changes.primary_key == "new_table"

    def made(self, source: SourceTable, seen: Seen) -> TableSink:
        """Open or create the table of a source table before its records are decoded for it.

        Raises ConfigError if its records determine none.
        """
        try:
            self._routing.route(source, seen)
        except TableFailure as failure:
            raise failure.error from failure
        rejection, identifier = self.rejections.get(source), self.routes.get(source)
        if rejection is not None or identifier is None:
            raise ConfigError("the records do not show its table" if rejection is None else rejection.reason)
        return self.sinks[identifier]

    def with_history(self, target: Target) -> Target:
        """A target with what its table keeps of changed and deleted rows."""
        name = target.identifier
        rule = self._routing.rules.get(name)
        if rule is None:
            return target
        fed = (self._routing.rule_of[source] for source, into in self.routes.items() if into == name)
        is_filtered = any(of_source.where is not None for of_source in fed)
        continued = ColumnSources.parsed(target.context.schema.options.get(OPTION)).continued
        return replace(
            target,
            deleted_at=rule.deleted_at,
            versions=rule.versions,
            is_filtered=is_filtered,
            former_columns={names[-1]: names[:-1] for names in continued.values()},
        )

    @property
    def event_time_columns(self) -> Mapping[int, str]:
        """Per target, by its index, the column from which its snapshots get a watermark.

        Readings alongside the stream have none: their records are older than those of the stream.
        """
        marks = [rule.watermark if (rule := self._routing.rules.get(name)) is not None else None for name in self.sinks]
        found = {index: mark.column for index, mark in enumerate(marks) if mark is not None}
        return found if self._beside is None else {}

    def next_watermarks(self, newest_ms: Mapping[tuple[int, str, int], int]) -> dict[str, int]:
        """The watermarks (ms) of tables after a batch; ``newest_ms`` are its event times by target and partition."""
        names = list(self.sinks)
        of_table: dict[str, dict[TopicPartition, int]] = {}
        for (index, topic, partition), newest in newest_ms.items():
            of_table.setdefault(names[index], {})[topic, partition] = newest
        found: dict[str, int] = {}
        for name, times in of_table.items():
            mark = self._routing.rules[name].watermark
            at_ms = None if mark is None else self._watermarks.next(name, mark, times)
            if at_ms is not None:
                found[name] = at_ms
        return found

    def note_truncations(
        self, truncations: Iterable[Truncation], read: Collection[TopicPartition], batch_id: int, started_ms: int | None
    ) -> bool:
        """Apply the TRUNCATE events that tables have not passed; returns whether there are new ones.

        ``read`` are the partitions with records in the batch. Raises TableFailure for a table that cannot follow.
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
        """The tables that earlier runs have written."""
        return self._own

    @property
    def is_catch_up(self) -> bool:
        """Whether these are the tables of a catch-up, of one table."""
        return self._only is not None

    @property
    def paused_topics(self) -> frozenset[str]:
        """The topics that feed paused tables and, as far as known, no others."""
        if self._paused is None or not self._paused.tables:
            return frozenset()
        fed = {topic for pause in self._paused.pauses.values() for topic in pause.topics}
        fed |= {source.topic for source, name in self.routes.items() if name in self.paused}
        return frozenset(fed - {s.topic for s, name in self.routes.items() if name not in (None, *self.paused)})

    @property
    def reasons_paused(self) -> dict[str, str]:
        """The reason of each paused table."""
        return {} if self._paused is None else {name: m.reason for name, m in self._paused.pauses.items()}

    def is_paused(self, identifier: str | None) -> bool:
        return identifier is not None and identifier in self.paused

    def take_nulls(self, failure: TableFailure) -> bool:
        """Make NOT NULL columns nullable after rows without a value for them have failed, if the rule says so.

        Returns whether a column has changed, so that the batch must be planned again. Such rows are deletes with only
        their key, or results of the rule for others.
        """
        error, rule = failure.error, self._routing.rules.get(failure.identifier)
        sink = self.sinks.get(failure.identifier)
        if not isinstance(error, MalformedRecord) or rule is None or sink is None:
            return False
        if rule.schema_changes.nullability != "apply":
            return False
        changes = nullable_changes(sink.table.schema, error.columns, rule.schema_changes)
        return self._evolution.change(sink, changes, now_ms())

    def pause(self, failure: TableFailure, batch_id: int, *, is_appended: bool = False) -> None:
        """Pause a table that has failed in ``batch_id``, or raise its error if the run must stop.

        The pause is durable on return; ``is_appended``: the table has the rows of the batch. The run stops if storage
        fails and no healthy table is left: then the failure is not specific to one table. It stops if the pipeline runs
        twice, because that affects all tables. It also stops if the first batch of a checkpoint shows an error in the
        file, because the user who started the run can fix it.
        """
        identifier, error = failure.identifier, failure.error
        healthy = self.sinks.keys() - self.paused - {identifier}
        stops = self.stops_with(identifier) and not isinstance(error, KeyChanged)
        if self._paused is None or stops or (failure.is_of_storage and not healthy):
            raise error
        if isinstance(error, RunTwice) or (isinstance(error, ConfigError) and self._paused.is_first_batch):
            raise error
        topics = self.topics_of(identifier)
        if isinstance(error, TooManyBadRecords):
            topics |= error.topics
            # Their records now wait for the table; only their rules show that.
            self._routing.rejections = {s: r for s, r in self.rejections.items() if s.topic not in error.topics}
        self._paused.pause_failed(identifier, error, batch_id, topics, is_running=True, is_appended=is_appended)
        is_followed = isinstance(error, KeyChanged)
        log.log(
            logging.WARNING if is_followed else logging.ERROR,
            "table %s is paused from batch %d on, all others continue: %s",
            identifier,
            batch_id,
            sentences(
                error, f"Tidemark first reads {identifier} up to this record" if is_followed else way_on(identifier)
            ),
        )

    def follow_newest(self, rows: Iterable[NewestRow]) -> bool:
        """Apply the rules to columns that the newest rows lack, and to the comments of columns.

        Returns whether the batch must be planned again. Raises TableFailure for a table that pauses. Rereads do not
        count: they are older than the table.
        """
        changed = False
        if self._beside is not None:
            return changed
        for source, absent in self._vanished.lacking(rows, self._remembered).items():
            identifier = self.routes.get(source)
            if identifier is None or self.is_paused(identifier):
                continue
            rule, sink = self._routing.rules[identifier], self.sinks[identifier]
            lost = self._vanished.lost(rule, absent, is_only_source=len(sink.sources) <= 1)
            if lost and rule.schema_changes.drop == "pause":
                text = (
                    f"{source.topic}: its events no longer have column {', '.join(lost)}, and"
                    " `schema_changes: {drop: pause}`; set keep_null and resume to write NULL there from now on"
                )
                raise TableFailure(identifier, SchemaChangeRefused(text).without_values())
            of_source, comments = self._routing.rule_of[source], self._vanished.comments(source)
            with blaming(identifier):
                if comments and rule.schema_changes.comment == "apply" and feeds_alone(rule, sink):
                    changed |= self._evolution.describe(sink, of_source, comments, now_ms())
                if of_source.joins_parts(sink.table.schema.options):
                    unfed = layout_of(of_source, sink.table.schema).unfed_texts
                    self._vanished.note_unfed(identifier, unfed)
                newest = self._vanished.newest(source)
                if newest is not None and newest.is_whole:
                    gone = self._vanished.lost(rule, newest.absent, is_only_source=len(sink.sources) <= 1)
                    check_relied(of_source, sink.table, gone, source.topic)
                    if feeds_alone(rule, sink):
                        awaited = awaited_columns(of_source, sink.table, absent)
                        self._vanished.note_awaited(source.topic, identifier, awaited)
                    changed |= self._evolution.keep_left_out(sink, rule, of_source, newest, now_ms())
                if lost and (self._vanished.is_certain(source) or rule.schema_changes.drop != "drop"):
                    changed |= self._without_lost(sink, source, of_source, lost)
        return changed

    def _remembered(self, source: SourceTable) -> ColumnSources:
        sink = self.sinks.get(self.routes.get(source) or "")
        return ColumnSources() if sink is None else remembered(sink, source)

    def _without_lost(self, sink: TableSink, source: SourceTable, rule: TargetRule, lost: Sequence[str]) -> bool:
        """Drop columns that the newest rows of all partitions lack, or record that they are gone."""
        behind, is_news = self._vanished.behind_newest(source), False
        if rule.schema_changes.follows_renames:
            is_news = self._evolution.keep_gone(sink, source, lost, behind, now_ms())
        if rule.schema_changes.drop != "drop":
            return is_news
        partitions = {partition for topic, partition in sink.position.offsets if topic == source.topic}
        ends, waiting = self._vanished.ends(source, lost, partitions, remembered(sink, source))
        self._vanished.note_waiting(source.topic, sink.identifier, waiting, sink.table.schema)
        if not ends:
            return is_news
        for name in ends:
            check_droppable(rule, sink.table.schema, name, source.topic)
        self._evolution.drop(sink, source, ends, now_ms())
        return True

    def note_newest(self, rows: Iterable[NewestRow]) -> None:
        """Log columns that the newest rows of a batch lack, after the tables have followed its events."""
        if self._beside is not None:
            return
        for source, absent in self._vanished.lacking(rows, self._remembered).items():
            identifier = self.routes.get(source)
            if identifier is not None:
                sink, rule = self.sinks[identifier], self._routing.rules[identifier]
                self._vanished.note(source, sink, rule, absent, is_only_source=len(sink.sources) <= 1)

    def note_offsets(
        self,
        batch_id: int,
        started_ms: int | None,
        fed: Mapping[str, Collection[TopicPartition]],
        read: Iterable[Mapping[TopicPartition, ReadOffsets]],
    ) -> None:
        """Warn of records that dump files repeat or bring late.

        ``fed`` has the partitions that feed each table, ``read`` the offsets that each task has read.
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
        """Record durably which tables are about to be written, so that their loss is noticed."""
        self._own.will_commit(((name, self.sinks[name].table) for name in identifiers), self.topics_of)

    def fed_by_records(self, topic: str, source: SourceTable | None) -> set[str | None]:
        """The target tables of a source table's records; None for skipped ones, empty if unknown.

        Records that name no source table belong to all tables that their topic feeds.
        """
        if source is None:
            return {name for known, name in self.routes.items() if known.topic == topic}
        return {self.routes[source]} if source in self.routes else set()

    @property
    def limits(self) -> Mapping[str, Budget | None]:
        """The limit of bad records for each table with a known rule."""
        return {name: rule.max_bad_records for name, rule in self._routing.rules.items()}

    @property
    def is_retry(self) -> bool:
        """Whether these are rereads, whose bad records are judged one by one."""
        return self._beside is not None

    def decode_targets(self) -> dict[SourceTable, Goal]:
        """The decoder's facts per source table."""
        goals: dict[SourceTable, Goal] = dict(self.rejections)
        paused, at_ms = self.paused, now_ms()
        for source, identifier in self.routes.items():
            if identifier is None:
                goals[source] = None
            elif identifier in paused:
                goals[source] = Behind()
            else:
                sink, rule = self.sinks[identifier], self._routing.rules[identifier]
                limits = self._evolution.limits(sink, rule, at_ms)
                is_retry = self._beside is not None and self._only is None
                of_source = self._routing.rule_of[source]
                with blaming(identifier):
                    goals[source] = decode_target(sink, source, of_source, rule, limits, at_ms, is_retry=is_retry)
        return goals
