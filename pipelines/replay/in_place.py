"""Reads a range of a table's topics again into the table, slice by slice, between the batches of its stream.

The loop is the same as for all readings (``pipelines.catchup.reading``). The snapshots carry the position of the replay
and no position of the pipeline: the stream continues as if another writer had made these snapshots.

Without a named end, a replay ends where the last batch of the stream ends, while no other has written the table. By
then the replay has read again, in order, every change that the stream has made to a key since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from paimon_table import TableName
from paimon_table.errors import ConfigError
from paimon_table.surroundings import now_ms
from pipelines.batch.batch_report import BatchReport
from pipelines.catchup.reading import Step, Stream
from pipelines.checkpoint.reached import Reached
from pipelines.checkpoint.replay_state import Kind, Point, Replays, ReplayState
from pipelines.config.config import PipelineConfig
from pipelines.replay.replay_range import position_of_places
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.table_failure import KeyChanged
from pipelines.tables.tables import PipelineTables
from sinks.commit.own_position import OwnReading
from sinks.commit.positions import (
    REPLAY_PROPERTY,
    REPLAYED_PROPERTY,
    Position,
    departed_property,
    offsets_text,
)
from sources.slices import SliceReader


def commit_user_of(config: PipelineConfig, state: ReplayState) -> str:
    """Who commits the slices of a replay."""
    return f"replay-{state.id}-{config.name}"


@dataclass(frozen=True, slots=True)
class ReplayContext:
    """The parts with which one process runs the replays of a pipeline."""

    config: PipelineConfig
    own: OwnTables
    replays: Replays
    reader: SliceReader
    stream: Stream
    stream_user: str
    """The commit user of the checkpoint."""
    now_ms: Callable[[], int] = now_ms


class InPlace:
    """``Destination`` of a replay: the table itself, as it is. Keeps the state of the replay."""

    def __init__(self, context: ReplayContext, state: ReplayState) -> None:
        self.context = context
        self.state = state

    @property
    def topics(self) -> Collection[str] | None:
        return self.state.topics or None

    @property
    def until(self) -> str | None:
        return self.state.limit

    @property
    def reached(self) -> Reached:
        assert self.state.reached is not None, "it has begun"
        return self.state.reached

    @property
    def is_done(self) -> bool:
        return self.state.is_done

    @property
    def takes_slices(self) -> bool:
        return True

    def begin(self) -> bool:
        """See ``Destination``. Raises ConfigError for an empty range, and for a replay that cannot continue."""
        state = self.state
        if state.void and self.takes_slices:
            how = "--into-place" if state.rebuild is None else "--rebuild"
            raise ConfigError(
                f"replay {state.id} of table {state.table} cannot continue: {state.void}; give it up ({how} "
                "--abandon) and start it again"
            )
        if not state.is_begun:
            limit = None if state.end is None else self._named(state.end)
            position, at_ms = self._named(state.begin), self.context.now_ms()
            self._check_range(position, limit)
            reached = Reached(position, at_ms=at_ms, after=self._newest_snapshot())
            self.keep(replace(state, limit=limit, begun_at_ms=at_ms, reached=reached))
        return False

    def open(self) -> PipelineTables:
        return self._tables(self.context.own, self.recorded, after=self.reached.after)

    def check(self, limit: str) -> None: ...

    def note(self, reached: Reached, report: BatchReport | None = None) -> None:
        state, after = self.state, self._newest_snapshot()
        count, failed = (0, 0) if report is None else (report.record_count, report.counts.quarantined)
        self.keep(
            replace(
                state,
                reached=replace(reached, after=after),
                record_count=state.record_count + count,
                failed_count=state.failed_count + failed,
            )
        )

    def meet(self, changed: KeyChanged) -> None:
        raise changed

    def has_met(self, end: str | None) -> bool:
        is_named = self.state.end is not None
        return is_named or not (self.context.stream.is_beyond(self.state.table) or self.context.stream.end != end)

    def finish(self) -> Step:
        self.keep(replace(self.state, is_done=True))
        return Step.DONE

    def recorded(self, position: Position) -> dict[str, str]:
        """The facts in the snapshots of a replay."""
        replayed = offsets_text(position.offsets)
        return {REPLAY_PROPERTY: self.state.id, REPLAYED_PROPERTY: replayed, **departed_property(position)}

    def keep(self, state: ReplayState) -> None:
        """Make a state durable, and continue from it."""
        self.context.replays.put(state)
        self.state = state

    def _tables(
        self, own: OwnTables, properties_of: Callable[[Position], dict[str, str]], after: int
    ) -> PipelineTables:
        state, by_offsets = self.state, self.context.config.source.files is None
        reading = OwnReading(properties_of, by_offsets, state.begun_at_ms, {state.table: after})
        user = commit_user_of(self.context.config, state)
        return PipelineTables(self.context.config, user, own, only=state.table, beside=reading)

    def _newest_snapshot(self) -> int:
        return self.context.own.catalog.files(TableName.of(self.state.table)).snapshots.latest_id() or 0

    def _named(self, point: Point) -> str | None:
        match point.kind:
            case Kind.EARLIEST:
                return None
            case Kind.TIMESTAMP:
                return self.context.reader.position_at(int(point.value), self.state.topics)
            case Kind.POSITION:
                return point.value
            case Kind.PLACES:
                return position_of_places(point.value, self.context.reader, self.state.topics)

    def _check_range(self, begin: str | None, limit: str | None) -> None:
        """Refuse an empty range, which is a mistake in a given time or end."""
        state, end = self.state, self.context.stream.end
        if end is None or (state.begin.kind is not Kind.TIMESTAMP and state.end is None):
            return
        until = end if limit is None else self.context.reader.earlier(limit, end)
        if self.context.reader.left(begin, until, self.topics) == 0:
            raise ConfigError(
                f"the range {state.words} has no records, and the stream has read up to {end}; give another --from"
                + (" or --to" if state.end is not None else "")
            )
