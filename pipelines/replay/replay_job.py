"""Reading a range of a table's topics once more into the table, slice by slice, between the batches of its stream.

Exactly once, the argument. Each slice is written into the state of the replay before it is read, with its number; it
goes through the code of batches, with this table's rules alone, and is committed under that number by a commit user of
this replay. So a slice that is read again after a crash finds its own commit, as a batch of the stream does. The
snapshots of a replay record no position of the pipeline: the stream goes on as if they were somebody else's.

Without an end that was named, a replay ends where the last batch of the stream ends, while no other has written the
table: whatever the stream did to a key meanwhile has been read again then, in its order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, Protocol

from paimon_table.errors import ConfigError
from paimon_table.surroundings import now_ms
from pipelines.batch.batch_report import BatchReport
from pipelines.batch.plan import BatchRun
from pipelines.checkpoint.replay_state import Kind, Planned, Point, Replays, ReplayState
from pipelines.config.config import PipelineConfig
from pipelines.replay.replay_range import position_of_places
from pipelines.tables.beside_stream import BesideStream
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.table_failure import TableFailure
from pipelines.tables.tables import PipelineTables
from sinks import faults
from sinks.commit.positions import (
    REPLAY_PROPERTY,
    REPLAYED_PROPERTY,
    Position,
    departed_property,
    offsets_text,
)
from sources.slices import Slice, SliceReader


class Step(StrEnum):
    """What one step came to."""

    SLICE = "slice"
    """Records were read and committed; there may be more."""
    WAITING = "waiting"
    """All is read that the stream is done with; a batch of it is about to be."""
    COUNTING = "counting"
    """Rows are to be counted beside the stream, by whoever has the steps done, before the next one."""
    DONE = "done"


class Destination(Protocol):
    """Where the records of a replay go."""

    def open(self, state: ReplayState) -> PipelineTables:
        """The tables of the replay: its table alone."""
        ...

    def check(self, state: ReplayState, limit: str) -> ReplayState:
        """Raise when what is to be read up to ``limit`` must not go there, before anything of it is planned.

        Gives the state with what was looked at, which need not be looked at again.
        """
        ...

    def after_slice(self, state: ReplayState) -> None:
        """Tidy up behind a slice that is done."""
        ...

    def is_settled(self, state: ReplayState) -> bool:
        """Whether no more slices may go there: what follows them has been done."""
        ...

    def finish(self, state: ReplayState, note: Callable[[ReplayState], None]) -> ReplayState | Step:
        """Do what follows the slices, in the turn in which the stream is met; ``note`` makes steps of it durable.

        Idempotent. A step when something else comes first: ``WAITING`` for the stream, or ``COUNTING``.
        """
        ...


class Stream(Protocol):
    """The stream as far as it is done; asked while no batch runs."""

    @property
    def end(self) -> str | None:
        """Where the last batch ends that will not run again; None before there is one."""
        ...

    def newest_snapshot(self, identifier: str) -> int:
        """The newest snapshot of a table, 0 where it has none."""
        ...

    def is_beyond(self, identifier: str) -> bool:
        """Whether a table may have rows of records behind ``end``."""
        ...


RunSlice = Callable[[BatchRun, PipelineTables, Slice, Collection[str] | None], BatchReport]
"""Brings a slice into the tables given and returns when all of it is committed."""


@dataclass(frozen=True, slots=True)
class Work:
    """What slices are cut and done with."""

    reader: SliceReader
    run: RunSlice
    stream: Stream
    most_records: Callable[[], int]
    """Of the next slice."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a replay is after a step."""

    step: Step
    record_count: int
    failed_count: int
    records_left: int | None

    @staticmethod
    def of(details: dict[str, Any]) -> Progress:
        return Progress(Step(details["step"]), *(details[n] for n in ("record_count", "failed_count", "records_left")))


def commit_user_of(config: PipelineConfig, state: ReplayState) -> str:
    """Who commits the slices of a replay."""
    return f"replay-{state.id}-{config.name}"


def recorded(state: ReplayState, position: Position) -> dict[str, str]:
    """What snapshots of a replay say."""
    replayed = offsets_text(position.offsets)
    return {REPLAY_PROPERTY: state.id, REPLAYED_PROPERTY: replayed, **departed_property(position)}


@dataclass(frozen=True, slots=True)
class InPlace:
    """The table itself, as it is."""

    config: PipelineConfig
    own: OwnTables

    def open(self, state: ReplayState) -> PipelineTables:
        after = 0 if state.planned is None else state.planned.after_snapshot
        beside = BesideStream(
            partial(recorded, state), lambda _name, _table: None, state.begun_at_ms, {state.table: after}
        )
        return PipelineTables(
            self.config, commit_user_of(self.config, state), self.own, only=state.table, beside=beside
        )

    def check(self, state: ReplayState, limit: str) -> ReplayState:
        return state

    def after_slice(self, state: ReplayState) -> None: ...

    def is_settled(self, state: ReplayState) -> bool:
        return False

    def finish(self, state: ReplayState, note: Callable[[ReplayState], None]) -> ReplayState:
        return state


class ReplayJob:
    """One replay as one process works on it. Nothing is kept here that the state does not have."""

    def __init__(
        self,
        replays: Replays,
        state: ReplayState,
        work: Work,
        destination: Destination,
        now_ms: Callable[[], int] = now_ms,
    ) -> None:
        self._replays = replays
        self._state = state
        self._work = work
        self._destination = destination
        self._tables: PipelineTables | None = None
        self._now_ms = now_ms

    @property
    def state(self) -> ReplayState:
        return self._state

    def step(self) -> Progress:
        """Do the next slice; to be called while no batch of the stream runs.

        The replay ends with the slice that meets the stream: before the next step there may be more of it.
        """
        if self._state.is_done:
            return self._progress(Step.DONE)
        if self._state.void and not self._destination.is_settled(self._state):
            how = "--into-place" if self._state.rebuild is None else "--rebuild"
            raise ConfigError(
                f"replay {self._state.id} of table {self._state.table} cannot continue: {self._state.void}; give it up"
                f" ({how} --abandon) and begin it again"
            )
        if not self._state.is_begun:
            self._begin()
        end, is_slice = self._work.stream.end, False
        if not self._destination.is_settled(self._state):
            if self._state.planned is None:
                self._plan()
            planned = self._state.planned
            is_slice = planned is not None
            if planned is not None:
                self._do(planned)
                if self._next_piece() is not None:
                    return self._progress(Step.SLICE)
            stream = self._work.stream  # one more batch may have been closed since, or be about to run again
            if self._state.end is None and (stream.is_beyond(self._state.table) or stream.end != end):
                return self._progress(Step.SLICE if is_slice else Step.WAITING)
        finished = self._destination.finish(self._state, self._note)
        if isinstance(finished, Step):
            return self._progress(Step.SLICE if is_slice and finished is Step.WAITING else finished)
        self._note(replace(finished, is_done=True))
        return self._progress(Step.DONE)

    def _begin(self) -> None:
        end = self._state.end
        limit = None if end is None else self._position(end)
        position = self._position(self._state.begin)
        self._check_range(position, limit)
        begun = replace(self._state, position=position, limit=limit, is_begun=True, begun_at_ms=self._now_ms())
        self._note(begun)

    def _position(self, point: Point) -> str | None:
        match point.kind:
            case Kind.EARLIEST:
                return None
            case Kind.TIMESTAMP:
                return self._work.reader.position_at(int(point.value), self._state.topics)
            case Kind.POSITION:
                return point.value
            case Kind.PLACES:
                return position_of_places(point.value, self._work.reader, self._state.topics)

    def _check_range(self, begin: str | None, limit: str | None) -> None:
        """Refuse a range that holds nothing, which is a slip: of what was named by a time, or by its end."""
        state, end = self._state, self._work.stream.end
        if end is None or (state.begin.kind is not Kind.TIMESTAMP and state.end is None):
            return
        until = end if limit is None else self._work.reader.earlier(limit, end)
        if self._work.reader.left(begin, until, self._topics) == 0:
            raise ConfigError(
                f"there are no records {state.words} among those that the stream has read, which go up to {end}; give"
                " another --from" + (" or --to" if state.end is not None else "")
            )

    def _plan(self) -> None:
        """Plan the next slice durably, if there is one."""
        limit, piece = self._limit(), self._next_piece()
        if limit is not None:
            self._state = self._destination.check(self._state, limit)
        if piece is not None:
            newest = self._work.stream.newest_snapshot(self._state.table)
            planned = Planned(piece.begin, piece.end, self._now_ms(), newest)
            self._note(replace(self._state, planned=planned))
            faults.reached("replay-planned", self._state.number)

    def _next_piece(self) -> Slice | None:
        limit = self._limit()
        if limit is None:
            return None
        return self._work.reader.next(self._state.position, limit, self._topics, self._work.most_records())

    def _do(self, planned: Planned) -> None:
        state = self._state
        tables, self._tables = self._tables or self._destination.open(state), None
        run = BatchRun(state.number, planned.planned_at_ms)
        try:
            report = self._work.run(run, tables, Slice(planned.begin, planned.end), self._topics)
        except TableFailure as failure:
            raise failure.error from failure
        self._tables = tables  # after a failure all is looked at anew
        faults.reached("replay-done", state.number)
        self._destination.after_slice(state)
        self._note(
            replace(
                state,
                planned=None,
                position=planned.end,
                number=state.number + 1,
                record_count=state.record_count + report.record_count,
                failed_count=state.failed_count + report.counts.quarantined,
            )
        )

    def _limit(self) -> str | None:
        end = self._work.stream.end
        if end is None or self._state.limit is None:
            return end
        return self._work.reader.earlier(self._state.limit, end)

    def _progress(self, step: Step) -> Progress:
        state, limit = self._state, self._limit()
        left = None if limit is None else self._work.reader.left(state.position, limit, self._topics)
        return Progress(step, state.record_count, state.failed_count, left)

    @property
    def _topics(self) -> tuple[str, ...] | None:
        return self._state.topics or None

    def _note(self, state: ReplayState) -> None:
        self._replays.put(state)
        self._state = state
