"""One table of a running pipeline: the rows that batches have written, its standing, and its shape on storage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from paimon_table import Snapshot, Table, TableSchema, TableState
from paimon_table.errors import WHERE_MORE
from pipelines.batch.batch_report import TableReport
from pipelines.catchup.shown_standing import Standing, TableStanding
from pipelines.checkpoint.book import Cause
from pipelines.checkpoint.replay_state import ReplayState
from pipelines.tables.column_changes import column_differences
from pipelines.views.table_shape import TableShape, table_shape
from pipelines.views.table_views import Beside, TableView
from sinks.commit.positions import Position
from sinks.write.unsent import Became
from sources.lag import PlaceLag
from sources.positions import Place
from sources.wording import position_words

COLUMNS_TOLD = 5


class OpenTable(Protocol):
    """A table that the pipeline writes, as the driver holds it in memory."""

    @property
    def table(self) -> Table: ...
    @property
    def state(self) -> TableState: ...
    @property
    def position(self) -> Position: ...


@dataclass(frozen=True, slots=True)
class Opened:
    """An ``OpenTable`` as it was at a moment."""

    table: Table
    state: TableState
    position: Position = field(default_factory=lambda: Position("", {}))


@dataclass(frozen=True, slots=True)
class OutOfStream:
    """Why a table is not in the stream, since when, and where it reads next."""

    reason: str = ""
    public_reason: str = WHERE_MORE
    """The reason without values of rows."""
    since_s: float | None = None
    behind_at: Mapping[Place, int] | None = None
    """The next offsets; None if they are not known."""
    topics: Collection[str] = ()
    has_bad_records: bool = False
    """Whether these are why."""


@dataclass(slots=True)
class TableCounts:
    """Counts begin at the start of the process."""

    events: int = 0
    rows: int = 0
    changelog_rows: int = 0
    late_rows: int = 0
    unsent: Counter[tuple[str, Became]] = field(default_factory=Counter)
    schema_changes: Counter[str] = field(default_factory=Counter)
    standing: Standing = Standing.RUNNING
    out: OutOfStream = OutOfStream()
    since_s: float | None = None
    topics: frozenset[str] = frozenset()
    seen: TableState | None = None
    """The newest state that the stream has shown."""
    schema: TableSchema | None = None
    snapshot: Snapshot | None = None
    beside: Beside | None = None
    beside_rows: int = 0
    slice_s: float | None = None
    shape: TableShape = field(default_factory=TableShape)

    def add(self, report: TableReport) -> None:
        """The rows of a batch or a slice."""
        self.events += report.event_count
        self.rows += report.row_count
        self.changelog_rows += report.changelog_row_count
        self.late_rows += report.late_row_count
        self.unsent.update(report.unsent)
        if report.is_truncated:
            self.schema_changes["truncate"] += 1

    def take(self, opened: OpenTable) -> str | None:
        """The present state of the table; gives the changes of its schema, in words."""
        state = opened.state
        self.shape = table_shape(state, opened.table.options)
        self.snapshot = state.snapshot
        self.topics |= {topic for topic, _ in opened.position.offsets}
        before, self.schema = self.schema, opened.table.schema
        if before is None or before.id == self.schema.id:
            return None
        self.schema_changes.update(kind for kind, _ in column_differences(before, self.schema))
        return schema_change(before, self.schema)

    def take_of_stream(self, opened: OpenTable) -> str | None:
        """As ``take``, for the state of the stream; does nothing for a value that it has seen before."""
        state = opened.state
        if state is self.seen:
            return None
        changed = self.take(opened)
        self.seen = state
        return changed

    def view(self, name: str, places: Collection[PlaceLag]) -> TableView:
        """The view of the table; ``places`` has the ends of the topics."""
        snapshot, beside, out = self.snapshot, self.beside, self.out
        is_behind = self.standing is not Standing.RUNNING and out.behind_at is not None
        return TableView(
            name,
            self.standing,
            out.reason,
            self.since_s,
            self.events,
            self.rows,
            self.changelog_rows,
            0 if snapshot is None else snapshot.id,
            None if snapshot is None else snapshot.time_ms / 1000,
            self.shape,
            out.public_reason,
            None if beside is None else replace(beside, rows=self.beside_rows, slice_s=self.slice_s),
            dict(self.unsent),
            tuple(sorted(self.topics)),
            missed_records(out.behind_at or {}, self.topics, places) if is_behind else None,
            out.has_bad_records,
            dict(self.schema_changes),
            self.late_rows,
        )


def missed_records(at: Mapping[Place, int], topics: Collection[str], places: Collection[PlaceLag]) -> int | None:
    """How many records are between the places ``at`` and the ends of the topics; None if no end is known.

    A partition that ``at`` does not name came later: the table misses all of its records.
    """
    ends = {(p.topic, p.partition): p.end_offset for p in places if not topics or p.topic in topics}
    known = [max(0, end - at.get(place, 0)) for place, end in ends.items() if end is not None]
    return sum(known) if known else None


def schema_change(before: TableSchema, after: TableSchema) -> str:
    """``schema 3: + note STRING, qty INT -> BIGINT``: the differences in names and types."""
    told = [words for _, words in column_differences(before, after)]
    more = [f"and {len(told) - COLUMNS_TOLD:,} more"] if len(told) > COLUMNS_TOLD else []
    words = ", ".join([*told[:COLUMNS_TOLD], *more]) or "options or comments"
    return f"schema {after.id}: {words}"


def catching_up(standings: Mapping[str, TableStanding]) -> dict[str, Beside]:
    """The tables that are catching up, by identifier, with their progress."""
    return {
        name: Beside(
            "backfill" if one.pause.cause is Cause.NEW else "catch-up",
            one.records_read,
            one.records_left,
            position_words(one.pause.position),
        )
        for name, one in standings.items()
        if one.state is Standing.CATCHING_UP
    }


def unfinished_replays(
    replays: Iterable[ReplayState], left: Mapping[str, int | None] | None = None
) -> dict[str, Beside]:
    """By table; ``left`` says of replays, by id, about how many records they have to read."""
    return {
        state.table: Beside(
            "replay" if state.rebuild is None else "rebuild",
            state.record_count,
            (left or {}).get(state.id),
            position_words(None if state.reached is None else state.reached.position),
        )
        for state in replays
        if not state.is_done
    }
