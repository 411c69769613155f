"""Bringing one paused table up to the stream, slice by slice.

Exactly once, the argument. The pause says where the table began to miss records, durably before the stream counted the
batch without it as done. Each slice is written into the pause before it is read, with its number; it goes through the
code of batches, with this table's rules alone, and is committed under that number by a commit user of this pause. So a
slice that is read again after a crash finds its own commit, as a batch of the stream does. Reading ends where the last
batch that Spark has closed ends: a batch that Spark may run again is never read here. There the pause is taken out,
durably, and the next batch of the stream writes the table again. All of that holds for a table that has what it had:
before each step its commits are counted, for one that was rolled back or restored begins again where it stands.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from enum import StrEnum

from paimon_table import Catalog, TableName
from paimon_table.surroundings import now_ms
from pipelines.batch.batch_report import BatchReport
from pipelines.batch.plan import BatchRun
from pipelines.checkpoint.book import Pause, SlicePlan
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.tables.paused_tables import PausedTables
from pipelines.tables.tables import PipelineTables
from sinks import faults
from sinks.commit.table_sink import has_batch
from sources.slices import Slice, SliceReader

log = logging.getLogger(__name__)

CLOSING_S = 2.0
"""How long the work beside the stream waits for Spark to close a batch; a query that is stopped leaves one open."""

CLOSING_LOOK_S = 0.05


class StreamEnd:
    """Where the stream of one run ends for work beside it; asked while no batch runs.

    ``last_batch`` is kept by what runs the batches.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        catalog: Catalog,
        tables: Callable[[], PipelineTables | None],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.last_batch: int | None = None
        """The last batch whose rows are in the tables; Spark may not have closed it yet."""
        self._checkpoint = checkpoint
        self._catalog = catalog
        self._tables = tables
        self._now_s = now_s

    @property
    def closed_batch(self) -> int | None:
        """The last batch that will not run again."""
        return self._checkpoint.closed_batch

    @property
    def next_batch(self) -> int:
        """The batch that runs next; it may have run before, in an earlier process."""
        closed = self.closed_batch if self.last_batch is None else self.last_batch
        return 0 if closed is None else closed + 1

    @property
    def is_settled(self) -> bool:
        """Whether the next batch follows the closed one: none before it has run, whose rows a table may have."""
        last = self._checkpoint.planned_batch if self.last_batch is None else self.last_batch
        return last == self.closed_batch

    def await_closing(self) -> None:
        """Wait until Spark has closed the last batch, which it does once the rows are in the tables; not for long."""
        given_up_s = self._now_s() + CLOSING_S
        while not self.is_settled and self._now_s() < given_up_s:
            time.sleep(CLOSING_LOOK_S)

    def offset_after(self, batch_id: int) -> str:
        """Where a batch ends."""
        return self._checkpoint.offset_after(batch_id)

    def has_rows_of(self, identifier: str, batch_id: int) -> bool:
        """Whether the stream's commit of a batch is in a table; asks the storage."""
        tables, table = self._tables(), self._catalog.find(TableName.of(identifier))
        if tables is None or table is None:
            return False
        planned_at_ms = self._checkpoint.planned_at_ms(batch_id)
        return has_batch(table, tables.config.name, tables.commit_user, batch_id, planned_at_ms)

    def resume(self, identifier: str) -> None:
        """Write the table with the next batch."""
        tables = self._tables()
        if tables is not None:
            tables.reopen(identifier)


class Step(StrEnum):
    """What one step came to."""

    SLICE = "slice"
    """Records were read and committed; there may be more."""
    WAITING = "waiting"
    """All is read that Spark has closed; a batch of the stream is about to be."""
    JOINED = "joined"


RunSlice = Callable[[BatchRun, PipelineTables, Slice, Collection[str] | None], BatchReport]
"""Brings a slice into the tables given and returns when all of it is committed."""


@dataclass(frozen=True, slots=True)
class SliceWork:
    """How slices are cut and done."""

    reader: SliceReader
    run: RunSlice
    open_tables: Callable[[Pause], PipelineTables]
    """The tables of one pause: its table alone, under a commit user of its own."""
    most_records: Callable[[], int]
    """Of the next slice."""
    went_back: Callable[[str], bool] = lambda _: False
    """Whether the table lacks what it had: it was rolled back or restored. Its pause says then where it stands."""


class CatchUp:
    """One table on its way back into the stream. Nothing is kept here that the pause does not have."""

    def __init__(
        self,
        identifier: str,
        paused: PausedTables,
        stream: StreamEnd,
        work: SliceWork,
        now_ms: Callable[[], int] = now_ms,
    ) -> None:
        self.identifier = identifier
        self._paused = paused
        self._stream = stream
        self._work = work
        self._now_ms = now_ms
        self._tables: PipelineTables | None = None
        self._is_slice_done = False
        self.record_count = 0

    @property
    def records_left(self) -> int | None:
        """About how many records are still to be read, as the source says now; None when that is not known."""
        pause, closed = self._pause, self._stream.closed_batch
        if closed is None:
            return 0
        begin = pause.position if self._planned is None else self._planned.begin
        return self._work.reader.left(begin, self._stream.offset_after(closed), pause.topics or None)

    def step(self) -> Step:
        """Do the next slice, join the stream, or both; to be called while no batch of the stream runs.

        Whoever has read all that is closed joins before the next batch comes: a stream without pauses would always be
        one batch ahead otherwise.
        """
        if self._work.went_back(self.identifier):
            self._tables, self._is_slice_done = None, False
        plan = self._plan()
        if plan is not None:
            pause = self._pause
            faults.reached("slice-planned", plan.number)
            self._tables = self._tables or self._work.open_tables(pause)
            run = BatchRun(plan.number, plan.planned_at_ms)
            report = self._work.run(run, self._tables, Slice(plan.begin, plan.end), pause.topics or None)
            self.record_count += report.record_count
            self._is_slice_done = True
            faults.reached("slice-done", plan.number)
        if not self._stream.is_settled or self._next_piece() is not None:
            return Step.WAITING if plan is None else Step.SLICE
        faults.reached("before-joining", 0)
        self._paused.resume(self.identifier)
        faults.reached("after-joining", 0)
        self._stream.resume(self.identifier)
        return Step.JOINED

    @property
    def _pause(self) -> Pause:
        return self._paused.pauses[self.identifier]

    @property
    def _planned(self) -> SlicePlan | None:
        """A slice that an earlier try, or an earlier process, planned and may not have finished."""
        return None if self._is_slice_done else self._pause.slice

    def _plan(self) -> SlicePlan | None:
        """The slice to do, durably planned; None when nothing is left of what is closed."""
        if self._planned is not None:
            return self._planned
        pause, piece = self._pause, self._next_piece()
        if piece is None:
            return None
        plan = SlicePlan(0 if pause.slice is None else pause.slice.number + 1, piece.begin, piece.end, self._now_ms())
        self._paused.note(replace(pause, slice=plan))
        return plan

    def _next_piece(self) -> Slice | None:
        """What comes next of the batches that are closed."""
        pause, closed = self._pause, self._stream.closed_batch
        if closed is None:
            return None
        limit = self._stream.offset_after(closed)
        return self._work.reader.next(self._begin(pause), limit, pause.topics or None, self._work.most_records())

    def _begin(self, pause: Pause) -> str | None:
        if pause.slice is None and pause.after is not None and self._stream.has_rows_of(pause.table, pause.batch):
            return pause.after
        return pause.position
