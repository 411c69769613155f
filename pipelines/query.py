"""One running pipeline: a Spark streaming query whose every micro-batch goes through ``process_batch``."""

from __future__ import annotations

import logging
import math
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

from py4j.clientserver import ClientServerConnection
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from paimon_table import Table, TableName
from paimon_table.errors import (
    Action,
    BrokenInvariant,
    RolledBack,
    SinkUnavailable,
    TidemarkError,
)
from paimon_table.storage.private_directory import process_directory
from pipelines.bad_records.facts import TableJudge, settle
from pipelines.bad_records.log import QuarantineLog
from pipelines.bad_records.pruning import prune
from pipelines.batch.batch import process_batch
from pipelines.batch.batch_commit import compact_batch, unfinished_batches
from pipelines.batch.batch_report import BatchObserver, BatchReport
from pipelines.batch.compactions import Compactions
from pipelines.batch.decode_report import DecodeReport
from pipelines.batch.decode_stream import decoded
from pipelines.batch.exchange import Exchange
from pipelines.batch.plan import BatchRun, TaskSettings
from pipelines.batch.small_batches import SmallBatchExchange, is_small
from pipelines.batch.spark_exchange import compacted_by, spark_exchange
from pipelines.batch.spooled_writes import SpooledWrites
from pipelines.batch.step_facts import AheadOfStream, AllOpen
from pipelines.beside_query import BesideQuery, OfQuery
from pipelines.catchup.shown_standing import TableStanding
from pipelines.catchup.table_standings import entry_of
from pipelines.checkpoint.checkpoint import commit_user
from pipelines.control.request_desk import Handler
from pipelines.prepared import PreparedPipeline
from pipelines.report.run_log import in_pipeline, naming
from pipelines.report.start_line import start_line
from pipelines.spark.query_end import QueryEnd, end_connection, this_connection
from pipelines.spark.session import lookup_root, spool, write_slots
from pipelines.spark.spark_errors import batch_failure, first_cause, second_run, task_failure
from pipelines.spark.stream_progress import ClosedBatches
from pipelines.storage import quarantine_of, quarantine_under
from pipelines.tables.repeated_reads import check_stored_reads
from pipelines.tables.tables import PipelineTables
from pipelines.tables.unmatched_rules import unmatched, unmatched_columns
from pipelines.tidying.tidier import Tidier, compact_left, found_tables
from pipelines.views.pipeline_state import PipelineState
from pipelines.views.table_views import Beside
from sinks.commit.table_sink import TableSink
from sources.pace import Pace
from sources.positions import Reading as ReadRange
from sources.reader import ReadHere

log = logging.getLogger(__name__)

KEEPS_UP_S = 60.0
"""Whether a stream keeps up: the age of the oldest record that it has not read."""
FIRST_RECORDS = 100_000
"""The expected duration of a stream's first batch, before any was measured."""


class StopRequested(TidemarkError):
    """A batch was about to start, or was given up, after a requested stop; Spark runs it after the next start."""

    action = Action.RETRY


class PipelineQuery:
    """A started pipeline."""

    def __init__(
        self,
        spark: SparkSession,
        pipeline: PreparedPipeline,
        once: bool,
        observers: Sequence[BatchObserver] = (),
        handlers: Mapping[str, Handler] | None = None,
        seen: PipelineState | None = None,
    ) -> None:
        """``handlers`` take requests that this query does not serve; ``seen`` gets the work alongside the stream."""
        self._given, self.config = pipeline.given, pipeline.config
        config = self.config
        self.tables: PipelineTables | None = None
        self.failure: BaseException | None = None
        self._once = once or config.trigger.available_now
        target_s = config.trigger.target_batch_duration.total_seconds()
        self._pace = Pace(config.source.reader.max_records_per_batch, target_s, FIRST_RECORDS)
        self._last_ended_s = 0.0
        self._observers = observers
        self._topics: set[str] = set()
        """Topics with records in this run."""
        self._is_told = self._once
        """Whether nothing is left to tell about columns that no source table has; ``unmatched`` tells it at the end."""
        self._stopping = threading.Event()
        self._is_in_batch = False
        self._is_given_up = False
        self._called_by: ClientServerConnection | None = None
        """The connection on which the JVM calls Python; the thread of the query never closes it."""
        self._drained = threading.Event()
        self._compactions = Compactions()
        self._scratch_dir = process_directory(tempfile.gettempdir())
        self._tidier = Tidier(config.name, self._scratch_dir, tables=self._tidied_tables)
        self._checkpoint = pipeline.checkpoint
        planned = self._checkpoint.planned_batch
        self._first_own = 0 if planned is None else planned + 1
        self._catalog = pipeline.catalog
        self._record = pipeline.record
        self._own = pipeline.own
        self._book = pipeline.book
        self._reader = pipeline.reader
        self._closed_batches = ClosedBatches(lambda ends: self._reader.read_to(ends, {}))
        self._settings = TaskSettings(
            config.decoder,
            write_slots(spark),
            lookup_root(spark),
            None,
            spool(spark),
            self._reader.wants_readings,
        )
        shared = self._settings.spool
        self._writes = None if shared is None else SpooledWrites(spark.sparkContext, self._settings.slots, shared)
        self._exchange = partial(spark_exchange, self._writes)
        self._read_here: ReadHere | None = None
        self._spark = spark
        self._opened = AllOpen(QuarantineLog(*quarantine_of(config)), self._catalog, self._topic_ids)
        with in_pipeline(config.name):
            self._beside = BesideQuery(
                OfQuery(
                    spark,
                    pipeline,
                    self._exchange,
                    self._compactions,
                    observers,
                    seen or PipelineState(config.name),
                    self._scratch_dir,
                    self._opened,
                    lambda: self.tables,
                    lambda: self._settings,
                    self._note_commits,
                    self._noting_failure,
                )
            )
        self._finish_interrupted(spark, pipeline.query_id)
        with in_pipeline(config.name):
            desk = self._beside.desk(handlers or {})
        self._query = self._begin(spark)
        self._end = QueryEnd(self._query)
        with in_pipeline(config.name):
            self._beside.work.start(desk)
            self._known_names = tuple(self._own.names())
            self._tidier.start()

    @property
    def is_running(self) -> bool:
        """Whether the query, a compaction of its last batch, or work alongside the stream runs."""
        is_active = self._query.isActive or self._end.is_awaited
        return is_active or self._compactions.is_busy or self._beside.work.is_running

    @property
    def is_in_turn(self) -> bool:
        """Whether a batch runs, or work for which batches wait."""
        return self._beside.turns.is_taken

    @property
    def has_failed(self) -> bool:
        """Whether the query ended for another reason than a requested stop."""
        self._note_compactions()
        if self._reader.failure is not None:
            return True
        if self.failure is not None:
            return not isinstance(self.failure, StopRequested)
        return not self._query.isActive and self._query.exception() is not None

    def written_tables(self) -> dict[str, Table]:
        """The tables that the pipeline has written, by identifier; tables of this run in their present state."""
        known = {} if self.tables is None else {name: sink.table for name, sink in self.tables.sinks.items()}
        names = {str(found.name) for found in self._own.written()} | self._beside.brought_up
        others = {name: self._catalog.find(TableName.of(name)) for name in names - known.keys()}
        return {name: table for name, table in others.items() if table is not None} | known

    def open_tables(self) -> dict[str, TableSink]:
        """The tables that this run has opened, by identifier; reads nothing. Safe from any thread."""
        return {} if self.tables is None else dict(self.tables.sinks)

    @property
    def unreadable_topics(self) -> tuple[str, ...]:
        """Topics without a table of which nearly all records are bad, in words."""
        return () if self.tables is None else tuple(self.tables.unreadable.values())

    def unmatched(self) -> Sequence[str]:
        """Names in the file that the source does not have, in words; empty if no batch ran."""
        if self.tables is None:
            return ()
        met = {**dict.fromkeys(self._own.sources()), **self.tables.met}
        topics = {place.topic for place in self._reader.lag.places(time.time())} | self._topics
        return list(unmatched(self._given, met, topics))

    def _tell_unmatched_columns(self, tables: PipelineTables) -> None:
        """Warn of columns in the file that the source does not have, once, after a batch with which it keeps up.

        A table or topic without records may only not have begun, but a mask without its column hides nothing.
        """
        if self._is_told:
            return
        ages_s = [place.seconds or math.inf for place in self._reader.lag.places(time.time()) if place.records]
        if max(ages_s, default=0.0) > KEEPS_UP_S:
            return
        self._is_told = True
        for text in unmatched_columns(self._given, tables.met):
            log.warning("%s", text)

    def _tidied_tables(self) -> dict[str, Table]:
        """The tables to tidy. Safe from any thread."""
        known = {name: sink.table for name, sink in self.open_tables().items()}
        return found_tables(self._catalog, [name for name in self._known_names if str(name) not in known]) | known

    def request_stop(self) -> None:
        """Let the running batch finish, start no other, then stop. Returns at once; safe in a signal handler."""
        self._stopping.set()

    def close(self) -> None:
        """Release the resources of the ended query in this process."""
        self._reader.stop()
        self._compactions.close()
        if self._called_by is not None:
            end_connection(self._called_by)
        if self._writes is not None:
            self._writes.remove()

    def poll(self) -> None:
        """End the query if it is due: once it is drained, or idle after a failure or a request to stop."""
        has_ended = self._drained.is_set() or not self._query.isActive
        if has_ended and (self.failure is not None or self._beside.work.is_at_rest):
            self._stopping.set()
        if self._stopping.is_set() or self.failure is not None:
            self._beside.work.request_stop()
        self._note_compactions()
        self._closed_batches.poll(self._query)
        if not self._is_in_batch and (self._stopping.is_set() or self.failure is not None):
            self._end.poll()
        elif self._is_in_batch and self._stopping.is_set() and self._reader.silent_s is not None:
            self._give_batch_up()

    def _give_batch_up(self) -> None:
        """Cancel the jobs of a batch whose source does not answer; the next start runs the batch again.

        This has the effect of a kill: the next start finds the commits of the batch. Call it until the batch has ended,
        because the batch may be between two jobs.
        """
        if not self._is_given_up:
            self._is_given_up = True
            log.warning(
                "%s: the source does not answer: Tidemark abandons the running batch; the next start repeats it",
                self.config.name,
            )
        with suppress(PySparkException, Py4JError):  # the JVM has ended, which the runner reports
            self._spark.sparkContext.cancelJobGroup(str(self._query.runId))

    def raise_failure(self) -> None:
        """Raise the error that ended the query, unless a stop was requested."""
        with naming(self.config.name):
            self._raise_failure()

    def _raise_failure(self) -> None:
        self._note_compactions()
        self._tidier.close(drains=self._once and self.failure is None)
        self._reader.stop()
        if self._reader.failure is not None:
            raise self._reader.failure
        if isinstance(self.failure, StopRequested):
            return
        if self.failure is not None:
            raise self.failure
        exception = self._query.exception()
        if exception is not None:
            raise self._in_own_words(exception, "Spark ended the query")

    def _in_own_words(self, error: Exception, what: str) -> TidemarkError:
        """Spark's error in Tidemark's own words, if they are known."""
        text = str(error)
        return (
            self._reader.explained(text)
            or task_failure(text)
            or second_run(text, self.config.checkpoint)
            or SinkUnavailable(f"pipeline {self.config.name}: {what}: {first_cause(error)}")
        )

    def _begin(self, spark: SparkSession) -> StreamingQuery:
        try:
            with in_pipeline(self.config.name):
                return self._start(spark)
        except (PySparkException, Py4JJavaError) as error:
            raise self._in_own_words(error, "Spark did not start the query") from error

    def _start(self, spark: SparkSession) -> StreamingQuery:
        quarantine_io, _ = quarantine_of(self.config)
        slots, reader, is_new = self._settings.slots, self._reader, self._checkpoint.is_new
        seconds = 0.0 if self._once else self.config.trigger.interval.total_seconds()
        records = reader.stream(spark, slots, self._log_start, self._pace, seconds)
        if is_new:
            check_stored_reads(self.config, self._catalog, self._book.topic_ids)
        self._read_here = reader.read_here
        blobs = decoded(records, slots, quarantine_io, self._settings.decoder, reader.share_reader)
        writer = blobs.writeStream.queryName(self.config.name).foreachBatch(self._run_batch)
        writer = writer.option("checkpointLocation", self.config.checkpoint)
        if self._once and self._reader.is_drained_by_spark:
            return writer.trigger(availableNow=True).start()
        if reader.share_reader is not None:
            seconds = 0.0  # the stream itself knows when a batch is due
        query = writer.trigger(processingTime=f"{int(seconds * 1000)} milliseconds").start()
        if self._once:
            threading.Thread(target=self._drain, args=(query,), daemon=True).start()
        return query

    def _drain(self, query: StreamingQuery) -> None:
        try:
            query.processAllAvailable()
        except (PySparkException, Py4JError):
            return  # the query failed or was stopped, or the JVM has ended; the main thread reports which
        self._drained.set()

    def _log_start(self, reads: str, is_resuming: bool) -> None:
        closed = self._checkpoint.closed_batch
        begins = self._reader.begin_words
        log.info(
            "%s", start_line(self.config, reads, begins, closed, is_resuming, self._once), extra={"event": "started"}
        )

    def _run_batch(self, batch: DataFrame, batch_id: int) -> None:
        with self._beside.turns.turn():
            self._run_batch_in_turn(batch, batch_id)
            self._beside.stream.last_batch = batch_id

    def _run_batch_in_turn(self, batch: DataFrame, batch_id: int) -> None:
        self._is_in_batch = True
        self._called_by = this_connection(batch.sparkSession)
        for observer in self._observers:
            observer.begin(batch_id)
        try:
            with in_pipeline(self.config.name), self._noting_failure():
                if self._stopping.is_set():
                    raise StopRequested(f"pipeline {self.config.name} stops before batch {batch_id}")
                tables = self._open_tables(batch)
                self._beside.take_first()
                run = BatchRun(batch_id, self._checkpoint.planned_at_ms(batch_id))
                exchange = self._exchange_of(batch, batch_id, tables)
                check = partial(self._check_read, batch_id)
                process_batch(run, tables, self._settings, exchange, self._compactions, self._ended, check)
                self._note_commits(tables.sinks)  # before Spark closes the batch
        finally:
            self._is_in_batch = False

    def _exchange_of(self, batch: DataFrame, batch_id: int, tables: PipelineTables) -> Exchange:
        by_spark = self._exchange(batch, self._compactions)
        if self._read_here is None or self._writes is None:
            return by_spark
        begins, ends = self._checkpoint.planned_bounds(batch_id)
        if ends.keys() - begins.keys():
            return by_spark  # Spark asks for the first offset of a new partition
        planned = {place: (begins[place], end) for place, end in ends.items()}
        if not is_small(sum(end - begin for begin, end in planned.values()), tables):
            return by_spark
        return SmallBatchExchange(partial(self._read_here, planned), by_spark)

    def _check_read(self, batch_id: int, reports: Sequence[DecodeReport]) -> None:
        topics = {topic for report in reports for topic, _ in report.read}
        self._topics |= topics
        self._reader.note_read(topics)
        if self._reader.wants_readings:
            readings = [
                ReadRange(place, begin, report.ends[place], tuple(report.gaps[place]))
                for report in reports
                for place, begin in report.begins.items()
            ]
            self._reader.check_read(self._checkpoint.planned_offsets(batch_id), readings)

    def _ended(self, report: BatchReport) -> None:
        self._closed_batches.appended_batch = report.batch_id
        report = report.after(self._last_ended_s)
        self._pace.done(report.record_count, report.wall_s)
        self._last_ended_s = report.ended_s
        self._reader.read_to(dict(report.ends), report.newest_s)
        opened = self.open_tables()
        for table in report.tables:
            self._tidier.note(table.identifier, opened[table.identifier].table)
        for observer in self._observers:
            observer.end(report)
        if self.tables is not None:
            self._tell_unmatched_columns(self.tables)

    def _finish_interrupted(self, spark: SparkSession, query_id: str | None) -> None:
        """Run the compactions that a killed process left: Spark may never run their batch again."""
        if query_id is None or self._checkpoint.is_new:  # nothing was written, and the book must not say that it was
            return
        self.tables = tables = self._tables_of(query_id)
        unfinished = unfinished_batches(tables, self._checkpoint.closed_batch, self._checkpoint.planned_at_ms)

        def finish() -> None:
            for appended in unfinished:
                log.info("batch %d: doing its %d unfinished compactions", appended.batch.id, len(appended.due))
                compact_batch(appended, tables, self._settings, partial(compacted_by, spark.sparkContext))

        if unfinished:
            self._compactions.start(finish)

    def standings(self) -> Mapping[str, TableStanding]:
        """The tables that are not in the stream, by identifier. Safe from any thread."""
        return self._beside.standings()

    def beside(self) -> Mapping[str, Beside]:
        """The running work alongside the stream, by table. Safe from any thread."""
        return self._beside.shown()

    def _note_commits(self, sinks: Mapping[str, TableSink]) -> None:
        """Record the present state of the tables in the checkpoint."""
        self._book.note_commits({name: entry_of(sink) for name, sink in sinks.items() if sink.position.commit_count})

    def _note_compactions(self) -> None:
        """Raise the failure of a compaction that runs in parallel with the query."""
        if self.failure is None or isinstance(self.failure, StopRequested):
            with suppress(Exception), self._noting_failure():
                self._compactions.raise_failure()

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        """Store the error that ends the query, in Tidemark's own words if they are known."""
        try:
            yield
        except (PySparkException, Py4JJavaError) as error:
            if self._is_given_up:
                self.failure = StopRequested(f"pipeline {self.config.name} stops within a batch")
            else:
                self.failure = self._in_own_words(error, "Spark gave a job up")
            raise self.failure from error
        except StopRequested as error:
            self.failure = self.failure or error  # it may only follow from a failure
            raise
        except Py4JError as error:  # the JVM has ended, which the runner reports
            self.failure = error
            raise
        except Exception as error:
            self.failure = batch_failure(error)
            if isinstance(error, RolledBack) and self.tables is not None:
                self._note_commits(self.tables.sinks)  # so the next start notices what the table lacks
            if self.failure is error:
                raise
            raise self.failure from error
        except BaseException as error:
            self.failure = error
            raise

    def _open_tables(self, batch: DataFrame) -> PipelineTables:
        """The tables, opened when the first batch shows the query's id: the identity of the checkpoint."""
        query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if query_id is None:
            raise BrokenInvariant(
                "Spark does not report the id of the query, and without it Tidemark cannot commit exactly once"
            )
        self._record.start()
        self._beside.begin()
        if self.tables is None:
            self.tables = self._tables_of(query_id)
        if self.tables.commit_user != commit_user(self.config.name, query_id):
            raise BrokenInvariant(f"checkpoint {self.config.checkpoint} has another id than query {query_id}")
        return self.tables

    def _tables_of(self, query_id: str) -> PipelineTables:
        judge = TableJudge(self._catalog)
        settle(self._opened.log, judge)
        prune(self._opened.log, judge)
        quarantine = quarantine_under(self.config, query_id)
        ahead = AheadOfStream(self._opened, self._checkpoint, reads_kafka=self.config.source.kafka is not None)
        self._settings = replace(
            self._settings,
            quarantine=quarantine,
            log=self._opened.log,
            reads_again=ahead,
            topic_ids=self._topic_ids,
        )
        tables = PipelineTables(
            self.config,
            commit_user(self.config.name, query_id),
            self._own,
            paused=self._beside.paused,
            topic_ids=self._topic_ids,
            first_own=self._first_own,
            book=self._book,
        )
        if tables.uncompacted:
            self._compactions.start(partial(compact_left, tables.uncompacted, self._scratch_dir))
        return tables

    def _topic_ids(self) -> Mapping[str, str]:
        return self._book.topic_ids
