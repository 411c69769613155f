"""A pipeline in this process, with Spark's checkpoint as files and a list of records as its source.

It can be killed at every crash point and started again from the disk. Its tables can be paused and caught up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table import Table, TableName
from pipelines.bad_records.facts import TableJudge, settle
from pipelines.bad_records.log import QuarantineLog
from pipelines.batch.batch import process_batch
from pipelines.batch.batch_report import BatchReport
from pipelines.batch.compactions import Compactions
from pipelines.batch.local_exchange import LocalExchange, process_locally
from pipelines.batch.plan import BatchRun, TaskSettings
from pipelines.batch.step_facts import AheadOfStream, AllOpen
from pipelines.catchup.reading import InStream, Reading, Step, StreamEnd, Work
from pipelines.catchup.slice_settings import slice_settings
from pipelines.catchup.table_standings import TableStandings, entry_of
from pipelines.checkpoint.book import Book, Cause, Pause
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.config.config import PipelineConfig
from pipelines.storage import catalog_of, quarantine_of, quarantine_under
from pipelines.tables.checkpoint_record import CheckpointRecord
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.paused_tables import PausedTables
from pipelines.tables.tables import PipelineTables
from sinks import faults
from sinks.commit.positions import aside_user
from sources.decode_target import Decoder
from sources.positions import Place
from sources.slices import Slice, SliceReader
from tests.support.local_batches import task_settings

QUERY = "test"
USER = f"tidemark-shop-{QUERY}"


class Killed(BaseException):
    """The process ends here."""


class ListSlices:
    """A ``SliceReader`` over a list of records; positions are ``{"at": N}``."""

    def __init__(self, records: pa.RecordBatch) -> None:
        self._records = records

    def next(self, begin: str | None, limit: str, topics: Collection[str] | None, most_records: int) -> Slice | None:
        first, last = at_of(begin), at_of(limit)
        return None if first >= last else Slice(position(first), position(min(last, first + most_records)))

    def topics(self, position: str) -> frozenset[str] | None:
        return frozenset(self._records.slice(0, at_of(position)).column("topic").to_pylist())

    def left(self, begin: str | None, limit: str, topics: Collection[str] | None) -> int | None:
        return at_of(limit) - at_of(begin)

    def missing(self, begin: str | None, limit: str, topics: Collection[str]) -> str | None:
        return None

    def position_at(self, time_ms: int, topics: Collection[str]) -> str:
        raise NotImplementedError("records have no times here")

    def position_at_offsets(self, offsets: Mapping[Place, int]) -> str | None:
        rows = self._records.select(["topic", "partition", "offset"]).to_pylist()
        topics = {topic for topic, _ in offsets}
        beyond = [
            at
            for at, row in enumerate(rows)
            if row["topic"] in topics and row["offset"] >= offsets.get((row["topic"], row["partition"]), 0)
        ]
        return position(min(beyond, default=len(rows)))

    def offsets(self, position: str) -> Mapping[Place, int] | None:
        return None

    def earlier(self, position: str, other: str) -> str:
        return min(position, other, key=at_of)

    def ends(self, topics: Collection[str]) -> Mapping[Place, int]:
        return {}

    def records(self, spark: Any, piece: Slice, topics: Collection[str] | None, slots: int) -> Any:
        raise NotImplementedError("without Spark")

    def taken(self, piece: Slice, topics: Collection[str] | None) -> pa.RecordBatch:
        first, last = at_of(piece.begin), at_of(piece.end)
        part = self._records.slice(first, last - first)
        wanted = [topics is None or topic in topics for topic in part.column("topic").to_pylist()]
        return part.filter(pa.array(wanted, pa.bool_()))


def position(at: int) -> str:
    return json.dumps({"at": at})


def at_of(text: str | None) -> int:
    return 0 if text is None else int(json.loads(text)["at"])


class PausedPipeline:
    """One process of the pipeline: recreated over the same directory, it is the next one."""

    def __init__(
        self,
        root: Path,
        records: pa.RecordBatch,
        rules: Sequence[Mapping[str, Any]],
        *,
        batch_size: int = 10,
        slice_size: int = 7,
        decoder: Decoder | None = None,
        has_quarantine: bool = False,
        query: str | None = None,
        slices: Callable[[pa.RecordBatch], SliceReader] | None = None,
        **keys: Any,
    ) -> None:
        self.root, self.records = root, records
        self._user = USER if query is None else f"tidemark-shop-{query}"
        query = query or QUERY
        self._batch_size, self._slice_size = batch_size, slice_size
        self.config = PipelineConfig.model_validate(
            {
                "version": 1,
                "name": "shop",
                "source": {"files": {"path": str(root)}, "format": "debezium-json"},
                "checkpoint": str(root / "checkpoint"),
                "catalog": {"warehouse": str(root / "warehouse")},
                "defaults": {"options": {"bucket": "2", "changelog-producer": "lookup"}},
                "tables": list(rules),
                **keys,
            }
        )
        quarantine = quarantine_under(self.config, query) if has_quarantine else None
        self.checkpoint = Checkpoint(self.config)
        self._opened_letters = AllOpen(QuarantineLog(*quarantine_of(self.config)), catalog_of(self.config))
        ahead = AheadOfStream(self._opened_letters, self.checkpoint, reads_kafka=False)
        log = self._opened_letters.log
        self.settings = replace(task_settings(root, quarantine, decoder), log=log, reads_again=ahead)
        self.checkpoint.write("metadata", json.dumps({"id": query}).encode())
        self.book = Book(self.checkpoint)
        self.paused = PausedTables(self.book, self.checkpoint)
        catalog = catalog_of(self.config)
        record = CheckpointRecord(self.config, self.checkpoint, catalog, self.book)
        record.check(self._user)
        self._own = OwnTables(self.config, catalog, record)
        self._slices: Any = (slices or ListSlices)(records)
        self.standings = TableStandings(self.config, self._own, self.checkpoint, self.paused, self._slices, dict)
        self._has_looked = not self.checkpoint.is_new
        if self._has_looked:
            self.standings.note_all()
        record.start()
        self.tables = self._opened()
        settle(self._opened_letters.log, TableJudge(catalog))
        self.stream = StreamEnd(self.config, self.checkpoint, catalog, self._slices)
        self.paused.has_passed = lambda topic: self.standings.has_passed(topic, self.stream.next_batch)
        self.reports: list[BatchReport] = []

    def _opened(self) -> PipelineTables:
        return PipelineTables(self.config, self._user, self._own, paused=self.paused, book=self.book)

    @property
    def behind(self) -> dict[str, str]:
        return {name: pause.reason for name, pause in self.paused.pauses.items()}

    def run_batch(self) -> bool:
        """Plan the next batch as Spark does, run it and close it; False when there are no more records."""
        number = self.stream.next_batch
        first = number * self._batch_size
        last = min(self.records.num_rows, first + self._batch_size)
        if first >= last:
            return False
        self._log("offsets", number, f'v1\n{{"batchTimestampMs":0}}\n{position(last)}')
        if not self._has_looked:
            self.standings.note_all()
            self._has_looked, self.tables = True, self._opened()
        part = self.records.slice(first, last - first)
        self.book.note_topics({topic: f"id of {topic}" for topic in set(part.column("topic").to_pylist())})
        compactions = Compactions()
        process_batch(
            BatchRun(number), self.tables, self.settings, LocalExchange([part]), compactions, self.reports.append
        )
        self.book.note_commits({name: entry_of(sink) for name, sink in self.tables.sinks.items()})
        compactions.wait()
        self.stream.last_batch = number
        faults.reached("before-closing", number)
        self.close_batch(number)
        return True

    def close_batch(self, number: int) -> None:
        """As Spark does once the rows of a batch are in the tables."""
        self._log("commits", number, 'v1\n{"nextBatchWatermarkMs":0}')

    def run(self, batches: int | None = None) -> None:
        while batches is None or batches > 0:
            if not self.run_batch():
                return
            batches = None if batches is None else batches - 1

    def pause(self, table: str) -> None:
        number, planned = self.stream.next_batch, self.checkpoint.planned_batch
        has_begun = planned is not None and planned >= number
        topics = self.tables.topics_of(table)
        self.paused.pause(table, Cause.ASKED, "by hand", number, topics, is_running=has_begun)

    def catch_up(self, table: str) -> Reading:
        run = self._runner(lambda: slice_settings(self.settings, self.paused.pauses[table], self._opened_letters))
        work = Work(self._slices, run, lambda: self._slice_size, self.stream.by_number)
        to = InStream(table, self.paused, self.stream, self._aside, self.tables.reopen, self.standings.note_paused)
        return Reading(to, self.stream, work)

    def caught_up(self, *tables: str, batch_between: bool = False) -> None:
        """Catch tables up, by default all that are behind, optionally with a batch of the stream after each slice."""
        for table in tables or sorted(self.paused.tables):
            catch_up = self.catch_up(table)
            while (step := catch_up.step()) is not Step.DONE:
                if batch_between or step is Step.WAITING:
                    self.run_batch()

    def catches_up_in(self, table: str) -> int:
        """Catch a table up beside a stream that never rests; gives how many batches of it came in that time."""
        catch_up, batches = self.catch_up(table), 0
        while catch_up.step() is not Step.DONE:
            assert self.run_batch(), "the stream has ended"
            batches += 1
        return batches

    def rows(self, table: str) -> dict[int, dict[str, Any]]:
        return {row["id"]: row for row in self.table(table).to_arrow().to_pylist()}

    def table(self, table: str) -> Table:
        return self._own.catalog.load(TableName.of(table))

    def _runner(self, settings: Callable[[], TaskSettings]) -> Callable[..., BatchReport]:
        def run(batch: BatchRun, tables: PipelineTables, piece: Slice, topics: Collection[str] | None) -> BatchReport:
            report = process_locally(batch, tables, settings(), self._slices.taken(piece, topics))
            self.book.note_commits({name: entry_of(sink) for name, sink in tables.sinks.items()})
            return report

        return run

    def _aside(self, pause: Pause) -> PipelineTables:
        user, topics = aside_user(self._user, pause.since_ms), pause.topics
        return PipelineTables(self.config, user, self._own, only=pause.table, topics_to_read=topics)

    def _log(self, directory: str, number: int, content: str) -> None:
        self.checkpoint.write(f"{directory}/{number}", content.encode())


@contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, step: int) -> Iterator[Callable[[], bool]]:
    """Kill the process at its ``step``-th crash point; gives whether that has happened."""
    passed = 0

    def reached(_point: str, _batch_id: int) -> None:
        nonlocal passed
        passed += 1
        if passed == step:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(faults, "reached", reached)
        yield lambda: passed >= step
