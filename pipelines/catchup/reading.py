"""Reads records alongside the stream of a pipeline, slice by slice: one loop for all purposes.

A ``Reading`` moves the records between two positions of the source to its ``Destination``. That is a table that is
behind, a table that rereads a range (``replay``), or a branch that replaces the content of a table. A reading ends at
the end of the last batch that Spark has closed, or at a named position. It never reads a batch that Spark may run
again (docs/INVARIANTS.md, E7).

Why each record counts exactly once: each snapshot carries the position of the reading that created it. A slice that is
read again after a crash adds only rows after that position (E3), on top of that position (E4). So the progress of a
reading (``Reached``) is recorded after its slice, and losing that record only costs time. Dump files give offsets in
any order. A slice of dump files is planned, with its number, before it is read; the number shows whether the table has
the slice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from paimon_table import Catalog, TableName
from paimon_table.surroundings import now_ms
from pipelines.batch.batch_report import BatchReport
from pipelines.batch.plan import BatchRun
from pipelines.checkpoint.book import Pause
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.reached import Reached
from pipelines.config.config import PipelineConfig
from pipelines.tables.paused_tables import PausedTables
from pipelines.tables.table_failure import KeyChanged, TableFailure
from pipelines.tables.tables import PipelineTables
from sinks import faults
from sinks.commit.own_position import has_step
from sinks.commit.positions import newest_position
from sources.positions import Place
from sources.slices import Slice, SliceReader

CLOSING_S = 2.0
"""How long the work alongside the stream waits for Spark to close a batch; a stopped query leaves one open."""

CLOSING_POLL_S = 0.05


class Step(StrEnum):
    """The result of one step."""

    SLICE = "slice"
    """Records were read and committed; there may be more."""
    WAITING = "waiting"
    """All is read that Spark has closed; a batch of the stream is about to be."""
    BEYOND = "beyond"
    """All is read that Spark has closed; the destination needs later records that the source already has."""
    COUNTING = "counting"
    """The caller of the steps must count the rows of the last slice before the next step."""
    DONE = "done"
    """Everything is read, and the destination is complete."""


class StreamEnd:
    """The end of a pipeline's stream, as work alongside it sees it; only called while no batch runs.

    The code that runs the batches maintains ``last_batch``.
    """

    def __init__(
        self,
        config: PipelineConfig,
        checkpoint: Checkpoint,
        catalog: Catalog,
        reader: SliceReader,
        topic_ids: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """``topic_ids`` gives the topics that are read: positions in earlier ones of their names do not count."""
        self.last_batch: int | None = None
        """The last batch whose rows are in the tables; Spark may not have closed it yet."""
        self.by_number = config.source.files is not None
        """Whether only the number of a batch or slice shows if a table has it, because offsets are in no order."""
        self._config = config
        self._checkpoint = checkpoint
        self._catalog = catalog
        self._reader = reader
        self._topic_ids = topic_ids

    @property
    def closed_batch(self) -> int | None:
        """The last batch that will not run again."""
        return self._checkpoint.closed_batch

    @property
    def end(self) -> str | None:
        """The end of that batch; None before the first batch."""
        closed = self.closed_batch
        return None if closed is None else self._checkpoint.offset_after(closed)

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
        given_up_s = time.monotonic() + CLOSING_S
        while not self.is_settled and time.monotonic() < given_up_s:
            time.sleep(CLOSING_POLL_S)

    def is_beyond(self, identifier: str) -> bool:
        """Whether a table has, or may have, rows of records after ``end``; reads the storage."""
        planned, end = self._checkpoint.planned_batch, self.end
        if planned is None or end is None:
            return False
        if self.by_number:
            return planned != self.closed_batch and self.has_batch(identifier, planned)
        position = newest_position(self._catalog.files(TableName.of(identifier)).snapshots, self._config.name)
        there = {} if position is None else position.among(self._topic_ids()).offsets
        ends, read = self._offsets(end), self._offsets(self._checkpoint.offset_after(planned))
        return any(at > ends.get(place, 0) for place, at in there.items() if place in read)

    def _offsets(self, position: str) -> Mapping[Place, int]:
        return self._reader.offsets(position) or {}

    def has_batch(self, identifier: str, batch_id: int) -> bool:
        """Whether the stream's commit of a batch is in a table, by its number; asks the storage."""
        user, table = self._checkpoint.commit_user, self._catalog.find(TableName.of(identifier))
        if user is None or table is None:
            return False
        return has_step(table, self._config.name, user, batch_id, self._checkpoint.planned_at_ms(batch_id))


RunSlice = Callable[[BatchRun, PipelineTables, Slice, Collection[str] | None], BatchReport]
"""Brings a slice into the tables given and returns when the whole slice is committed."""


@dataclass(frozen=True, slots=True)
class Work:
    """The values for cutting and running slices."""

    reader: SliceReader
    run: RunSlice
    most_records: Callable[[], int]
    """Of the next slice."""
    by_number: bool
    """See ``StreamEnd``: a slice is planned before it is read."""
    now_ms: Callable[[], int] = now_ms


class Stream(Protocol):
    """The stream as far as it is done, see ``StreamEnd``."""

    @property
    def end(self) -> str | None: ...
    def is_beyond(self, identifier: str) -> bool: ...


class Destination(Protocol):
    """The target of a reading's records, and the durable store of its progress."""

    @property
    def topics(self) -> Collection[str] | None:
        """The topics that are read; None: all."""
        ...

    @property
    def until(self) -> str | None:
        """The latest end; None: the end of the stream."""
        ...

    @property
    def reached(self) -> Reached:
        """How far it is, as it is kept."""
        ...

    @property
    def is_done(self) -> bool: ...

    @property
    def takes_slices(self) -> bool:
        """Whether slices may go there; False once what follows them has been done."""
        ...

    def begin(self) -> bool:
        """Check the basis of a step; gives whether it has changed. Raises if the reading must not continue."""
        ...

    def open(self) -> PipelineTables:
        """The tables of the reading: only its own, under a separate commit user."""
        ...

    def check(self, limit: str) -> None:
        """Raise if the records up to ``limit`` must not go to this destination; called before a slice is planned."""
        ...

    def note(self, reached: Reached, report: BatchReport | None = None) -> None:
        """Store the progress durably, and the result of its last slice."""
        ...

    def meet(self, changed: KeyChanged) -> None:
        """Take no record of its partition from this one on, but the others; raises ``changed`` if it cannot."""
        ...

    def has_met(self, end: str | None) -> bool:
        """Whether nothing of the stream is left to read for it, which had closed batches up to ``end``."""
        ...

    def finish(self) -> Step:
        """Do what follows the slices, in the turn in which the stream is met; idempotent.

        Another step than ``DONE`` when something else comes first.
        """
        ...


class Reading:
    """One reading as one process works on it. Nothing is kept here that its destination does not have."""

    def __init__(self, to: Destination, stream: Stream, work: Work) -> None:
        self.to = to
        self._stream = stream
        self._work = work
        self._tables: PipelineTables | None = None
        self.record_count = 0
        """Records that this process has read."""

    @property
    def records_left(self) -> int | None:
        """About how many records are left, by what the source says now; None if unknown."""
        limit = self._limit()
        return 0 if limit is None else self._work.reader.left(self.to.reached.position, limit, self.to.topics)

    def step(self) -> Step:
        """Read the next slice, finish after the last one, or both. Call it while no batch of the stream runs.

        If everything closed is read, the reading ends before the next batch comes. Otherwise a stream without pauses
        would always be one batch ahead.
        """
        if self.to.is_done:
            return Step.DONE
        if self.to.begin():
            self._tables = None
        end, is_slice = self._stream.end, False
        if self.to.takes_slices:
            is_slice = self._slice()
            # The stream continues in parallel and may have closed another batch since.
            if not self.to.has_met(end) or self._next() is not None:
                return Step.SLICE if is_slice else Step.WAITING
        step = self.to.finish()
        return Step.SLICE if is_slice and step in (Step.WAITING, Step.BEYOND) else step

    def _slice(self) -> bool:
        """Read the next slice; False when there is none."""
        planned = self._planned()
        if planned is None:
            return False
        piece, reached = planned
        faults.reached("slice-planned", reached.number)
        tables, self._tables = self._tables or self.to.open(), None
        try:
            report = self._work.run(BatchRun(reached.number, reached.at_ms), tables, piece, self.to.topics)
        except TableFailure as failure:
            raise failure.error from failure
        except KeyChanged as changed:  # nothing of the slice is committed
            self.to.meet(changed)
            return True
        self._tables = tables  # after a failure everything is checked again
        self.record_count += report.record_count
        faults.reached("slice-done", reached.number)
        self.to.note(reached.done(piece.end, self._work.now_ms()), report)
        return True

    def _planned(self) -> tuple[Slice, Reached] | None:
        """The slice to read; one that an earlier try, or process, has planned and may not have finished comes first."""
        reached = self.to.reached
        if reached.end is not None:
            return Slice(reached.position, reached.end), reached
        limit = self._limit()
        if limit is not None:
            self.to.check(limit)
        piece = self._next()
        if piece is None:
            return None
        if self._work.by_number or not reached.at_ms:
            end = piece.end if self._work.by_number else None
            self.to.note(replace(reached, end=end, at_ms=self._work.now_ms()))
        return piece, self.to.reached

    def _next(self) -> Slice | None:
        """The next slice, taken from the closed batches."""
        limit, reached = self._limit(), self.to.reached
        if limit is None:
            return None
        return self._work.reader.next(reached.position, limit, self.to.topics, self._work.most_records())

    def _limit(self) -> str | None:
        end, until = self._stream.end, self.to.until
        return end if end is None or until is None else self._work.reader.earlier(until, end)


class FollowKey(Protocol):
    """Continues a table in a new one when the primary key of its source has changed."""

    @property
    def until(self) -> str | None:
        """Where the table ends in each partition; None while its source has the key of the table."""
        ...

    def meet(self, changed: KeyChanged) -> None:
        """See ``Destination``."""
        ...

    def finish(self, pause: Pause, reached: Reached) -> Step:
        """``BEYOND`` while the table lacks records before its end; otherwise raises TableContinued."""
        ...


class InStream:
    """``Destination`` of a table behind its stream: after the catch-up, the next batch writes the table again."""

    is_done, takes_slices = False, True

    def __init__(
        self,
        identifier: str,
        paused: PausedTables,
        stream: StreamEnd,
        open_tables: Callable[[Pause], PipelineTables],
        rejoin: Callable[[str], object],
        went_back: Callable[[str], bool],
        follow: FollowKey | None = None,
    ) -> None:
        """``rejoin`` lets the next batch write a table.

        ``went_back``: whether the table was rolled back or restored and lacks earlier commits. Its pause then has its
        position. ``follow`` continues with another primary key in a new table.
        """
        self._follow = follow
        self._identifier = identifier
        self._paused = paused
        self._stream = stream
        self._open_tables = open_tables
        self._rejoin = rejoin
        self._went_back = went_back

    @property
    def topics(self) -> Collection[str] | None:
        return self._pause.topics or None

    @property
    def until(self) -> str | None:
        return None if self._follow is None else self._follow.until

    @property
    def reached(self) -> Reached:
        """See ``Destination``; where positions do not show it, the batch that failed may be in the table after all."""
        pause = self._pause
        if pause.reached is not None:
            return pause.reached
        may_be_there = self._stream.by_number and pause.after is not None
        is_there = may_be_there and self._stream.has_batch(pause.table, pause.batch)
        return Reached(pause.after if is_there else pause.begin)

    def begin(self) -> bool:
        return self._went_back(self._identifier)

    def open(self) -> PipelineTables:
        return self._open_tables(self._pause)

    def check(self, limit: str) -> None: ...

    def note(self, reached: Reached, report: BatchReport | None = None) -> None:
        self._paused.note(self._identifier, reached)

    def meet(self, changed: KeyChanged) -> None:
        if self._follow is None:
            raise changed
        self._follow.meet(changed)

    def has_met(self, end: str | None) -> bool:
        return self._stream.is_settled

    def finish(self) -> Step:
        if self.until is not None and self._follow is not None:
            return self._follow.finish(self._pause, self.reached)
        self._rejoin(self._identifier)  # a failure there leaves the table paused
        faults.reached("before-joining", 0)
        self._paused.resume(self._identifier)
        faults.reached("after-joining", 0)
        return Step.DONE

    @property
    def _pause(self) -> Pause:
        return self._paused.pauses[self._identifier]
