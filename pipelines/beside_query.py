"""The work of one query alongside its stream: catch-ups, replays, and requests of commands."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from paimon_table.errors import BrokenInvariant, SinkUnavailable
from pipelines.batch.batch_report import BatchObserver, BatchReport
from pipelines.batch.compactions import Compactions
from pipelines.batch.plan import BatchRun, TaskSettings
from pipelines.batch.spark_exchange import MakeExchange
from pipelines.batch.step_facts import AllOpen
from pipelines.catchup.continuing import Continuing
from pipelines.catchup.reading import InStream, Reading, StreamEnd, Work
from pipelines.catchup.shown_standing import TableStanding, say_paused
from pipelines.catchup.side_work import COMMANDS, SideWork, TableRequests
from pipelines.catchup.slices import SLICE_S, SparkSlices, paced
from pipelines.catchup.table_standings import TableStandings
from pipelines.checkpoint.book import Cause, Pause
from pipelines.control.request_desk import Handler, NotYet, RequestDesk, Tell
from pipelines.control.requests import Answer, Request, Requests
from pipelines.control.turns import Turns
from pipelines.prepared import PreparedPipeline, known_tables
from pipelines.quarantine import applying
from pipelines.replay.replay_slices import COMMAND as REPLAY_SLICE
from pipelines.replay.replay_slices import GIVE_UP, ReplaySlices, ShownReplays, giving_up
from pipelines.tables.continued_tables import continued_by, ended_tables
from pipelines.tables.paused_tables import PausedTables
from pipelines.tables.tables import PipelineTables
from pipelines.tidying.tidier import compact_left
from pipelines.views.pipeline_state import PipelineState
from pipelines.views.table_counts import catching_up
from pipelines.views.table_views import Beside
from sinks.commit.positions import aside_user
from sinks.commit.table_sink import TableSink
from sources.pace import Pace
from sources.slices import Slice

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OfQuery:
    """The values that a query shares with the work alongside it."""

    spark: SparkSession
    pipeline: PreparedPipeline
    exchange: MakeExchange
    compactions: Compactions
    observers: Sequence[BatchObserver]
    seen: PipelineState
    """Observes the work alongside the stream."""
    scratch_dir: str
    opened: AllOpen
    tables: Callable[[], PipelineTables | None]
    """The tables of the stream; None before they are known."""
    settings: Callable[[], TaskSettings]
    note_commits: Callable[[Mapping[str, TableSink]], None]
    guarded: Callable[[], AbstractContextManager[None]]
    """Keeps the error that must end the pipeline."""


class BesideQuery:
    """The work alongside one query; batches and this work take turns."""

    def __init__(self, of: OfQuery) -> None:
        pipeline = of.pipeline
        of.seen.without_tables(ended_tables(pipeline.own.continuations))
        self.config, self._given = pipeline.config, pipeline.given
        self.turns = Turns()
        self.brought_up: set[str] = set()
        """The tables that got rows outside the stream."""
        self._of = of
        self._checkpoint, self._own, self._book = pipeline.checkpoint, pipeline.own, pipeline.book
        self._reader = pipeline.reader
        slices, ids = pipeline.reader.slices(), lambda: self._book.topic_ids
        self.paused = PausedTables(self._book, self._checkpoint)
        self.standing = TableStandings(self.config, self._own, self._checkpoint, self.paused, slices, ids)
        self.stream = StreamEnd(self.config, self._checkpoint, pipeline.catalog, slices, ids)
        self.paused.has_passed = lambda topic: self.standing.has_passed(topic, self.stream.next_batch)
        self._replays: ReplaySlices | None = None
        self._shown = ShownReplays(self._checkpoint, pipeline.catalog, of.seen)
        self._has_noted = not self._checkpoint.is_new
        self._take_first: Callable[[], object] = lambda: None
        known = self._own.continuations
        say_paused({name: pause for name, pause in self.paused.pauses.items() if not continued_by(known, name)})
        self._shown.refresh()
        if self._has_noted:
            self.standing.note_all()
        of.seen.without_tables(self.paused.ruleless)
        self.work = SideWork(self.turns, self.paused, self._catch_up, self.settle, of.guarded, self._stops_with)

    def desk(self, others: Mapping[str, Handler]) -> RequestDesk:
        """The desk that takes requests, ``others`` with these handlers. Takes requests for tables that already wait."""
        desk = RequestDesk(Requests.of(self.config), {**self._handlers(), **others})
        if self._checkpoint.is_new:
            self._take_first = lambda: desk.take(COMMANDS)
        else:
            desk.take(COMMANDS)
        return desk

    def take_first(self) -> None:
        """Take requests from before the first batch, once that batch has opened the tables."""
        self._take_first()
        self._take_first = lambda: None

    def begin(self) -> None:
        """A batch begins: under a new checkpoint the first one shows where the stream begins."""
        if not self._has_noted:
            self.standing.note_all()
            self._has_noted = True

    def settle(self) -> None:
        """Wait for the unfinished work of the last batch, in a turn."""
        self._of.compactions.wait()
        self.stream.await_closing()

    def standings(self) -> Mapping[str, TableStanding]:
        """The tables that are not in the stream, by identifier. Safe from any thread."""
        return self.work.standings()

    def shown(self) -> Mapping[str, Beside]:
        """The running work alongside the stream, by table. Safe from any thread."""
        return {**self._shown.unfinished, **catching_up(self.standings())}

    # ------------------------------------------------------------ requests

    def _handlers(self) -> Mapping[str, Handler]:
        """Who takes which requests."""
        tables = TableRequests(self.paused, self.work, self._known_tables, self._pause).handlers
        retry = applying.handler(self._given, self._own, self._of.compactions.wait)
        return {**tables, applying.COMMAND: retry, REPLAY_SLICE: self._replay_slice, GIVE_UP: self._give_up}

    def _replay_slice(self, request: Request, tell: Tell) -> Answer:
        """Do a slice of a replay, once the pipeline's tables are known."""
        tables = self._of.tables()
        if tables is None:
            raise SinkUnavailable(f"pipeline {self.config.name} has not begun its first batch; try again later")
        if self._replays is None:
            what = self._checkpoint, self._own, self._slices(), self.stream, tables.commit_user
            self._replays = ReplaySlices(*what, self._shown.slice_done, SLICE_S)
        answer, id_ = self._replays.handle(request, tell), request.text("replay")
        self._shown.refresh({id_: answer.details.get("records_left")})
        return answer

    def _give_up(self, request: Request, tell: Tell) -> Answer:
        answer = giving_up(self._checkpoint, self._own)(request, tell)
        self._shown.refresh()
        return answer

    def _known_tables(self) -> set[str]:
        tables = self._of.tables()
        return known_tables(self.config, self._own, self._book) | (set() if tables is None else {*tables.sinks})

    def _pause(self, identifier: str, reason: str) -> None:
        """Pause a table by hand from the next batch on, which may have run before."""
        batch_id, tables = self.stream.next_batch, self._of.tables()
        planned = self._checkpoint.planned_batch
        if planned is None:
            raise NotYet("the first batch pauses it, because Tidemark knows the table's position only then")
        topics = set() if tables is None else tables.topics_of(identifier)
        topics |= {topic for t in self._own.written() if str(t.name) == identifier for topic, _ in t.position.offsets}
        has_begun = planned >= batch_id
        self.paused.pause(identifier, Cause.ASKED, reason, batch_id, topics, is_running=has_begun, public_reason=reason)
        log.warning("table %s is paused from batch %d on: %s", identifier, batch_id, reason)

    def _stops_with(self, identifier: str) -> bool:
        tables = self._of.tables()
        return tables is not None and tables.stops_with(identifier)

    # ------------------------------------------------------------ tables that are caught up

    def _catch_up(self, identifier: str) -> Reading:
        """The work that catches a table up; called in a turn, once the pipeline's tables are known."""
        tables = self._of.tables()
        if tables is None:
            raise BrokenInvariant(f"table {identifier} cannot catch up before the pipeline's tables are known")
        slices = self._slices()
        pace = Pace(self.config.source.reader.max_records_per_batch, SLICE_S)

        def run(batch: BatchRun, own: PipelineTables, piece: Slice, topics: Collection[str] | None) -> BatchReport:
            return slices.of_pause(self.paused.pauses[identifier]).run(batch, own, piece, topics)

        def note(report: BatchReport, own: PipelineTables) -> None:
            self._of.note_commits(own.sinks)
            self._of.seen.slice_done(identifier, report, own.sinks.get(identifier))
            self.brought_up.add(identifier)
            for observer in self._of.observers:
                observer.beside(identifier, report)

        def open_tables(pause: Pause) -> PipelineTables:
            user, topics = aside_user(tables.commit_user, pause.since_ms), pause.topics
            return PipelineTables(
                self.config,
                user,
                self._own,
                only=pause.table,
                topics_to_read=topics,
                topic_ids=lambda: self._book.topic_ids,
            )

        def rejoin(name: str) -> None:
            table = tables.reopen(name)
            if table is not None:
                self._of.compactions.start(partial(compact_left, {name: table}, self._of.scratch_dir))

        reader = self._reader.slices()
        follow = Continuing(self._given, self._own, self._book, reader, tables.commit_user, self._of.seen.continued)
        to = InStream(identifier, self.paused, self.stream, open_tables, rejoin, self.standing.note_paused, follow)
        work = Work(reader, paced(run, pace, note), lambda: pace.records, self.stream.by_number)
        return Reading(to, self.stream, work)

    def _slices(self) -> SparkSlices:
        of = self._of
        return SparkSlices(of.spark, self.config, self._reader, of.settings(), of.exchange, of.opened)
