"""A pipeline on trial: its real batches in this process, into a separate warehouse, without Spark and its source.

Decoding, routing, new tables and columns, writing, committing and the quarantine work as in a run: ``process_batch``
over an exchange of this process. Checkpoint, warehouse and quarantine are in one directory, and a trial writes nothing
else. If a source gets another primary key, its table continues in a new table. A trial omits all other work alongside
the stream (catching up, tidying).
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from paimon_table import Catalog, Table
from paimon_table.errors import TidemarkError
from paimon_table.surroundings import now_ms
from pipelines.bad_records.dead_letters import BadLine, DeadLetters
from pipelines.bad_records.facts import TableJudge, settle
from pipelines.bad_records.log import QuarantineLog
from pipelines.batch.batch import CheckRead, append_batch
from pipelines.batch.batch_commit import compact_batch, unfinished_batches
from pipelines.batch.batch_report import BatchReport
from pipelines.batch.compactions import Compactions
from pipelines.batch.local_exchange import LocalExchange, process_locally
from pipelines.batch.plan import BatchRun, TaskSettings
from pipelines.batch.step_facts import AheadOfStream, AllOpen
from pipelines.catchup.continuing import Continuing
from pipelines.catchup.reading import InStream, Reading, Step, StreamEnd, Work
from pipelines.catchup.slice_settings import slice_settings
from pipelines.catchup.table_standings import TableStandings, entry_of
from pipelines.checkpoint.book import Book, Pause
from pipelines.checkpoint.checkpoint import Checkpoint, commit_user
from pipelines.config.catalog_config import Catalog as CatalogConfig
from pipelines.config.config import PipelineConfig
from pipelines.storage import catalog_of, quarantine_of, quarantine_under
from pipelines.tables.checkpoint_record import CheckpointRecord
from pipelines.tables.continued_tables import with_continued
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.paused_tables import PausedTables
from pipelines.tables.table_failure import TableContinued
from pipelines.tables.tables import PipelineTables
from pipelines.trial.trial_slices import TrialSlices
from sinks.commit.positions import aside_user, offsets_text
from sources.positions import Place
from sources.slices import Slice

_SLOTS = 2
"""Write tasks of a batch: more than one, as in a run."""


def in_directory(config: PipelineConfig, directory: Path) -> PipelineConfig:
    """The pipeline with everything that it writes below ``directory``."""
    return config.model_copy(
        update={
            "catalog": CatalogConfig(warehouse=str(directory / "warehouse")),
            "checkpoint": str(directory / "checkpoint"),
            "source": config.source.model_copy(update={"quarantine": None}),
            "metrics": None,
            "ui": None,
        }
    )


@dataclass(slots=True)
class _Process:
    """The state in memory of one process of the pipeline."""

    config: PipelineConfig
    """With the rules of tables that continue others."""
    tables: PipelineTables
    settings: TaskSettings
    book: Book
    paused: PausedTables
    own: OwnTables
    opened: AllOpen


@dataclass(slots=True)
class TrialPipeline:
    """One pipeline on trial. ``catalog`` replaces the catalog of its directory."""

    given: PipelineConfig
    directory: Path
    catalog: Catalog | None = None
    check_read: CheckRead = lambda _: None
    """Hears what the tasks of a batch have read, see ``process_batch``."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Records that gave nothing on purpose, by the word for why."""
    reports: list[BatchReport] = field(default_factory=list)
    config: PipelineConfig = field(init=False)
    _stream: TrialCheckpoint = field(init=False)
    _process: _Process | None = None
    _ends: dict[Place, int] = field(default_factory=dict)
    _next_batch: int = 0
    _read: TrialSlices = field(default_factory=TrialSlices)

    def __post_init__(self) -> None:
        self.config = in_directory(self.given, self.directory)
        (self.directory / "warehouse").mkdir(parents=True, exist_ok=True)
        self._stream = TrialCheckpoint(self.directory / "checkpoint")
        self.catalog = self.catalog or catalog_of(self.config)

    @property
    def tables(self) -> Mapping[str, Table]:
        """All tables of the warehouse, as they are stored, by identifier."""
        catalog = catalog_of(self.config)
        return {str(name): catalog.load(name) for name in catalog.names()}

    @property
    def routes(self) -> PipelineTables:
        """The tables as the running process knows them."""
        return self._running().tables

    @property
    def quarantined(self) -> list[BadLine]:
        """The open records of the quarantine, in the order of their places."""
        return sorted(DeadLetters(self.config).records(), key=lambda line: line.record)

    @property
    def paused(self) -> Mapping[str, str]:
        """The tables that the stream has left out, and why."""
        return {name: pause.reason for name, pause in self._running().paused.pauses.items()}

    def run(self, records: pa.RecordBatch) -> None:
        """Bring the records of one batch into the tables, and close it."""
        self._running()
        self._plan(records)
        self._run(records)
        self._close(records)

    def run_killed(self, records: pa.RecordBatch) -> None:
        """The same with a process that is killed once the tables have the rows; the next process finishes its work.

        Before the kill nothing was compacted, and Spark has not closed the batch: it runs again.
        """
        process, compactions = self._running(), Compactions()
        self._plan(records)
        exchange = LocalExchange([records])
        append_batch(self._batch(), process.tables, process.settings, exchange, compactions, self.check_read)
        compactions.close()
        self.restart()
        self._running()
        self._run(records, is_again=True)
        self._close(records)

    def restart(self) -> None:
        """Forget all that the process holds in memory."""
        self._process = None

    def _run(self, records: pa.RecordBatch, *, is_again: bool = False) -> None:
        process = self._running()
        report = process_locally(self._batch(), process.tables, process.settings, records, self.check_read)
        process.book.note_commits({n: entry_of(s) for n, s in process.tables.sinks.items() if s.position.commit_count})
        self.reports.append(report)
        counts = replace(report.counts, already_stored=0) if is_again else report.counts
        if all(pause.is_due for pause in process.paused.pauses.values()):
            counts = replace(counts, tables_behind=0)  # they are read below
        self.skipped.update(counts.skipped)

    def _plan(self, records: pa.RecordBatch) -> None:
        for topic, partition, offset in zip(*(records.column(i).to_pylist() for i in range(3)), strict=True):
            if partition >= 0:  # a line of a dump that is not a record has none
                self._ends[topic, partition] = max(self._ends.get((topic, partition), 0), offset + 1)
        self._stream.plan(self._next_batch, self._ends)

    def _close(self, records: pa.RecordBatch) -> None:
        self._stream.close(self._next_batch)
        self._next_batch += 1
        self._read.add(records, self._ends)
        while due := [name for name, pause in self._running().paused.pauses.items() if pause.is_due]:
            self._follow_key(due[0])

    def _follow_key(self, identifier: str) -> None:
        """Read a table up to a changed key, or read the table that continues it up to the stream."""
        process = self._running()
        config, own, paused = process.config, process.own, process.paused
        stream = StreamEnd(config, Checkpoint(config), own.catalog, self._read)
        user = process.tables.commit_user

        def opened(pause: Pause) -> PipelineTables:
            topics = pause.topics
            return PipelineTables(config, aside_user(user, pause.since_ms), own, only=identifier, topics_to_read=topics)

        def run(batch: BatchRun, tables: PipelineTables, piece: Slice, topics: Collection[str] | None) -> BatchReport:
            settings = slice_settings(process.settings, paused.pauses[identifier], process.opened)
            report = process_locally(batch, tables, settings, self._read.taken(piece, topics))
            process.book.note_commits({name: entry_of(sink) for name, sink in tables.sinks.items()})
            self.skipped.update(report.counts.skipped)
            return report

        follow = Continuing(self.config, own, process.book, self._read, user, lambda *_: None)
        to = InStream(identifier, paused, stream, opened, process.tables.reopen, lambda _: False, follow)
        reading = Reading(to, stream, Work(self._read, run, lambda: 0, by_number=False))
        try:
            while reading.step() is not Step.DONE:
                pass
        except TableContinued:
            self.restart()
        except TidemarkError as error:
            pause = paused.pauses[identifier]
            paused.pause_failed(identifier, error, pause.batch, pause.topics)

    def _batch(self) -> BatchRun:
        return BatchRun(self._next_batch, Checkpoint(self.config).planned_at_ms(self._next_batch))

    def _running(self) -> _Process:
        if self._process is None:
            self._process = self._started()
            self._finish_interrupted(self._process)
        return self._process

    def _started(self) -> _Process:
        """A new process, which knows only checkpoint and warehouse."""
        config, checkpoint, catalog = self.config, Checkpoint(self.config), self.catalog
        assert catalog is not None
        book = Book(checkpoint)
        record = CheckpointRecord(config, checkpoint, catalog, book)
        user = commit_user(config.name, self._stream.query_id)
        record.check(user)
        record.start()
        log = QuarantineLog(*quarantine_of(config))
        settle(log, TableJudge(catalog))
        paused, planned = PausedTables(book, checkpoint), checkpoint.planned_batch
        own = OwnTables(config, catalog, record)
        config = with_continued(config, own.continuations)
        opened = AllOpen(log, catalog)
        settings = TaskSettings(
            config.decoder,
            _SLOTS,
            str(self.directory / "lookup"),
            quarantine_under(config, self._stream.query_id),
            log=log,
            reads_again=AheadOfStream(opened, checkpoint, reads_kafka=config.source.kafka is not None),
        )
        first_own = 0 if planned is None else planned + 1
        if planned is not None:
            TableStandings(config, own, checkpoint, paused, self._read, dict).note_all()
        tables = PipelineTables(config, user, own, paused=paused, first_own=first_own, book=book)
        return _Process(config, tables, settings, book, paused, own, opened)

    def _finish_interrupted(self, process: _Process) -> None:
        """Do the compactions that a killed process has left, as a start does."""
        checkpoint, exchange = Checkpoint(self.config), LocalExchange([])
        for left in unfinished_batches(process.tables, checkpoint.closed_batch, checkpoint.planned_at_ms):
            compact_batch(left, process.tables, process.settings, exchange.compact)


class TrialCheckpoint:
    """Writes what ``Checkpoint`` reads, as Spark does; ``directory`` need not exist.

    ``offsets/N`` is durable before batch N runs, ``commits/N`` follows when it is done. A batch without the second runs
    again at the next start.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.query_id = self._query_id()

    def plan(self, batch_id: int, ends: Mapping[Place, int]) -> None:
        """Note where a batch ends, before it runs; one that was planned before keeps its time."""
        if not self._path("offsets", batch_id).exists():
            lines = "v1", json.dumps({"batchTimestampMs": now_ms()}), offsets_text(ends)
            self._path("offsets", batch_id).write_text("\n".join(lines))

    def close(self, batch_id: int) -> None:
        """Note that a batch is done."""
        self._path("commits", batch_id).write_text('v1\n{"nextBatchWatermarkMs":0}')

    def _query_id(self) -> str:
        file = self._directory / "metadata"
        if not file.exists():
            for name in ("offsets", "commits"):
                (self._directory / name).mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps({"id": str(uuid.uuid4())}))
        return str(json.loads(file.read_text())["id"])

    def _path(self, kind: str, batch_id: int) -> Path:
        return self._directory / kind / str(batch_id)
