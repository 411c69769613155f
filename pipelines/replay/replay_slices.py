"""Slices of replays and rebuilds: one for each request, between two batches of the running pipeline.

If no process runs the pipeline, the command does the slices itself, in a separate Spark session. This module also shows
replays to metrics, `status` and the page.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial

from paimon_table import Catalog, TableName
from paimon_table.errors import ConfigError, TidemarkError
from pipelines.bad_records.facts import TableJudge, settle
from pipelines.bad_records.log import QuarantineLog, replay_owner
from pipelines.batch.batch_report import BatchReport
from pipelines.batch.plan import BatchRun, TaskSettings
from pipelines.batch.spark_exchange import spark_exchange
from pipelines.batch.spooled_writes import SpooledWrites
from pipelines.batch.step_facts import AllOpen
from pipelines.catchup.reading import Reading, Step, StreamEnd, Work
from pipelines.catchup.slices import SparkSlices, paced
from pipelines.catchup.standing import lacks_commits
from pipelines.catchup.table_standings import facts_now
from pipelines.checkpoint.book import Book, Cause
from pipelines.checkpoint.checkpoint import Checkpoint, commit_user
from pipelines.checkpoint.replay_state import Replays, ReplayState
from pipelines.config.config import PipelineConfig
from pipelines.control.request_desk import Tell
from pipelines.control.requests import Answer, Request, State, check_rules
from pipelines.prepared import prepared
from pipelines.replay.in_place import InPlace, ReplayContext
from pipelines.replay.rebuild_requests import give_up
from pipelines.replay.rebuilding import Rebuilding
from pipelines.replay.replay_progress import Progress
from pipelines.spark.java import check_java
from pipelines.spark.session import lookup_root, open_session, spool, write_slots
from pipelines.spark.spark_errors import told_by_spark
from pipelines.storage import quarantine_of, quarantine_under
from pipelines.tables.known_routes import led_to
from pipelines.tables.merged_sources import source_words
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.tables import PipelineTables
from pipelines.views.pipeline_state import PipelineState
from pipelines.views.table_counts import Opened, unfinished_replays
from pipelines.views.table_views import Beside
from sources.pace import Pace
from sources.slices import Slice
from sources.wording import counted, sentences

log = logging.getLogger(__name__)

COMMAND = "replay-slice"
GIVE_UP = "replay-give-up"


def giving_up(checkpoint: Checkpoint, own: OwnTables) -> Callable[[Request, Tell], Answer]:
    """Takes requests to give up rebuilds; called while no slice or switch needs the new content."""

    def handle(request: Request, _tell: Tell) -> Answer:
        replays = Replays(checkpoint)
        state = replays.get(request.text("replay"))
        give_up(replays, state, own.catalog.load(TableName.of(state.table)))
        return Answer(State.DONE, f"rebuild {state.id} of {state.table}: given up")

    return handle


OnSlice = Callable[[ReplayState, BatchReport, PipelineTables], None]
"""Gets the result of each slice by table."""


class ReplaySlices:
    """Does the next slice of a replay, for a request or for a command that holds the checkpoint."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        own: OwnTables,
        slices: SparkSlices,
        stream: StreamEnd,
        commit_user: str,
        on_slice: OnSlice = lambda _state, _report, _tables: None,
        slice_s: float | None = None,
    ) -> None:
        """``commit_user`` is the commit user of the stream.

        ``slice_s`` is the time limit of a slice while a stream waits (``sources.pace``).
        """
        self._config = slices.config
        self._checkpoint = checkpoint
        self._slices = slices
        self._stream = stream
        self._on_slice = on_slice
        self._slice_s = slice_s
        reader = slices.reader.slices()
        self._context = ReplayContext(self._config, own, Replays(checkpoint), reader, stream, commit_user)
        self._readings: dict[str, tuple[InPlace, Reading]] = {}
        self._paces: dict[str, Pace] = {}

    def handle(self, request: Request, _tell: Tell) -> Answer:
        """Take a request; called between batches, when no work of the last one is left."""
        check_rules(self._config, request)
        done = self.do(request.text("replay"))
        left = "" if done.records_left is None else f", about {done.records_left:,} left"
        text = f"replay {request.text('replay')}: {counted(done.record_count, 'record')} read{left}"
        return Answer(State.DONE, text, asdict(done))

    def do(self, id_: str) -> Progress:
        """Do one slice."""
        state = self._context.replays.get(id_)
        self._context.own.catalog.load(TableName.of(state.table))  # raises if it was dropped since
        check_in_stream(self._config, self._checkpoint, self._context.own, state.table)
        known = self._readings.get(id_)
        if known is None or known[0].state != state:
            to = InPlace(self._context, state) if state.rebuild is None else Rebuilding(self._context, state)
            known = self._readings[id_] = to, Reading(to, self._stream, self._work(state))
        to, reading = known
        step = reading.step()
        done = Progress(step, to.state.record_count, to.state.failed_count, reading.records_left)
        if done.step is Step.DONE:
            del self._readings[id_]
        return done

    def _work(self, state: ReplayState) -> Work:
        """The work of one replay. It has its own quarantine and its own numbers of slices."""
        reader, rebuild = self._slices.reader, "" if state.rebuild is None else state.id
        own = self._slices.with_quarantine(quarantine_under(self._config, replay_owner(state.id)), rebuild)
        most = self._config.source.reader.max_records_per_batch
        pace = self._paces.setdefault(state.table, Pace(most, self._slice_s))

        def run(batch: BatchRun, tables: PipelineTables, piece: Slice, topics: Collection[str] | None) -> BatchReport:
            with told_by_spark(f"table {state.table}: Spark gave slice {batch.id} up", reader.explained):
                return own.run(batch, tables, piece, topics)

        timed = paced(run, pace, lambda report, tables: self._on_slice(state, report, tables))
        return Work(reader.slices(), timed, lambda: pace.records, self._stream.by_number)


def check_in_stream(config: PipelineConfig, checkpoint: Checkpoint, own: OwnTables, identifier: str) -> None:
    """Refuse a table that is behind its stream: its catch-up reads the missing records.

    A rebuild would apply the same records, and the table would get them twice.
    """
    entry = Book(checkpoint).entry(identifier)
    if entry.pause is not None and not entry.pause.has_rule and entry.pause.cause is Cause.NEW_KEY:
        way = sentences(entry.pause.reason, "Replay that table, which begins where this one ends")
        raise ConfigError(f"table {identifier} gets no more records: {way}")
    if entry.pause is not None and not entry.pause.has_rule:
        raise ConfigError(
            f"table {identifier} lacks records that the stream has read while no rule wrote the table. Start the "
            f"pipeline with a rule for it, which catches it up, then replay"
        )
    if entry.pause is not None:
        raise ConfigError(
            f"table {identifier} is behind the stream ({entry.pause.reason}): resume it first, then replay"
        )
    back = [one.source for one in entry.ruleless if led_to(config, one.source)]
    if back:
        raise ConfigError(
            f"table {identifier} lacks records of {source_words(back[0])}, because their rule was missing for some "
            "time: start the pipeline, which reads them, then replay"
        )
    table = facts_now(own, config.name, identifier, entry)
    if lacks_commits(table):
        raise ConfigError(
            f"table {identifier} lacks the last {counted(entry.commits - table.commits, 'commit')} of the pipeline that"
            " its checkpoint has (was it restored from a backup, or rolled back?). Restart the pipeline, which reads"
            " it again from its position, then replay"
        )


class ShownReplays:
    """Maintained by the process that does the slices; ``unfinished`` may be read from any thread."""

    def __init__(self, checkpoint: Checkpoint, catalog: Catalog, seen: PipelineState) -> None:
        self.unfinished: Mapping[str, Beside] = {}
        """The unfinished replays, by table, as of the last update."""
        self._checkpoint = checkpoint
        self._catalog = catalog
        self._seen = seen

    def refresh(self, left: Mapping[str, int | None] | None = None) -> None:
        """Read the states of all replays; ``left``, as for ``unfinished_replays``, names replays that have just
        advanced.

        If ``left`` names a finished rebuild, its table is shown as it is now. Read errors are logged, not raised: the
        replay reports the error, and the stream continues.
        """
        if self._checkpoint.is_new:
            return
        try:
            replays = Replays(self._checkpoint).all()
            self.unfinished = unfinished_replays(replays, left)
            for state in replays:
                if state.is_done and state.rebuild is not None and state.id in (left or {}):
                    table = self._catalog.load(TableName.of(state.table))
                    self._seen.table_changed(state.table, Opened(table, table.state(table.snapshots.latest())))
        except (TidemarkError, OSError) as error:
            log.warning("replays cannot be shown: %s", error)

    def slice_done(self, state: ReplayState, report: BatchReport, tables: PipelineTables) -> None:
        """Show the result of a slice; a rebuild's slices do not change the table until the switch."""
        is_aside = state.rebuild is not None
        self._seen.slice_done(state.table, report, None if is_aside else tables.sinks.get(state.table))


@contextmanager
def local_slices(config: PipelineConfig) -> Iterator[ReplaySlices]:
    """Runs slices during the block; the caller holds the checkpoint."""
    check_java()
    pipeline = prepared(config)
    if pipeline.query_id is None:
        raise ConfigError(f"pipeline {config.name} has never run under checkpoint {config.checkpoint}")
    user = commit_user(config.name, pipeline.query_id)
    spark = open_session([config])
    try:
        shared, slots = spool(spark), write_slots(spark)
        settings = TaskSettings(config.decoder, slots, lookup_root(spark), None, shared)
        writes = None if shared is None else SpooledWrites(spark.sparkContext, slots, shared)
        reader, ids = pipeline.reader.slices(), lambda: pipeline.book.topic_ids
        stream = StreamEnd(config, pipeline.checkpoint, pipeline.catalog, reader, ids)
        pipeline.reader.attach(spark)
        opened = AllOpen(QuarantineLog(*quarantine_of(config)), pipeline.catalog, lambda: pipeline.book.topic_ids)
        settle(opened.log, TableJudge(pipeline.catalog))
        slices = SparkSlices(spark, config, pipeline.reader, settings, partial(spark_exchange, writes), opened)
        yield ReplaySlices(pipeline.checkpoint, pipeline.own, slices, stream, user)
    finally:
        spark.stop()
