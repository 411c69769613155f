"""One running pipeline as others may look at it: a ``BatchObserver`` that keeps numbers and asks nobody.

Whatever looks (metrics, `status`, the page) gets a view; views take what the driver holds in memory anyway, and cost
the storage and the source no request.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from paimon_table import Snapshot, Table, TableState
from paimon_table.errors import WHERE_MORE
from pipelines.batch.batch_report import BatchReport, TableReport
from pipelines.config.config import PipelineConfig
from pipelines.live.table_shape import TableShape, table_shape
from pipelines.live.views import BatchView, Beside, Durations, Phase, PipelineView, Point, Standing, TableView
from sinks.write.unsent import Became
from sources.lag import Lag
from sources.loss import Losses

BATCHES_KEPT = 60
POINTS_KEPT = 720
POINT_EVERY_S = 5.0
REASONS_KEPT = 100
"""Kinds of reasons that are counted apart; those of later kinds are counted together."""

OTHER_REASONS = "other reasons"
DURATION_BOUNDS_S = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0)


class OpenTable(Protocol):
    """A table that the pipeline writes, as the driver holds it in memory."""

    @property
    def table(self) -> Table: ...
    @property
    def state(self) -> TableState: ...


@dataclass(frozen=True, slots=True)
class Opened:
    """An ``OpenTable`` as it was at a moment."""

    table: Table
    state: TableState


class SourceView(Protocol):
    """What the reader of a source knows anyway."""

    @property
    def lag(self) -> Lag: ...
    @property
    def losses(self) -> Losses: ...
    @property
    def silent_s(self) -> float | None:
        """How long the source has not answered; None while it does."""
        ...

    @property
    def group_failure_count(self) -> int:
        """How often the offsets of its consumer group could not be committed."""
        ...

    @property
    def unread_bytes(self) -> int | None:
        """Bytes that wait to be read, where the source counts them."""
        ...


@dataclass(slots=True)
class _TableCounts:
    events: int = 0
    rows: int = 0
    changelog_rows: int = 0
    unsent: Counter[tuple[str, Became]] = field(default_factory=Counter)
    standing: Standing = Standing.RUNNING
    reason: str = ""
    public_reason: str = WHERE_MORE
    has_bad_records: bool = False
    since_s: float | None = None
    seen: TableState | None = None
    """The newest state that the stream has shown."""
    snapshot: Snapshot | None = None
    beside: Beside | None = None
    beside_rows: int = 0
    slice_s: float | None = None
    shape: TableShape = field(default_factory=TableShape)

    def add(self, report: TableReport) -> None:
        self.events += report.event_count
        self.rows += report.row_count
        self.changelog_rows += report.changelog_row_count
        self.unsent.update(report.unsent)

    def take(self, opened: OpenTable) -> None:
        state = opened.state
        self.shape = table_shape(state, opened.table.options)
        self.snapshot = state.snapshot


class PipelineState:
    """Fed by the pipeline's threads, seen by others. ``now`` is the wall clock."""

    def __init__(self, name: str, checkpoint: str = "", now: Callable[[], float] = time.time) -> None:
        self.name = name
        self._checkpoint = checkpoint
        self._now = now
        self._lock = threading.Lock()
        self._phase, self._reason, self._public_reason = Phase.STARTING, "", WHERE_MORE
        self._records = 0
        self._skipped: Counter[str] = Counter()
        self._quarantined: Counter[str] = Counter()
        self._retries: Counter[str] = Counter()
        self._steps: dict[str, float] = {}
        self._task_steps: dict[str, float] = {}
        self._counts_at_most: Counter[float] = Counter()
        self._batch_count, self._batch_seconds = 0, 0.0
        self._running: dict[int, float] = {}
        self._ended_s = -math.inf
        self._batches: deque[BatchView] = deque(maxlen=BATCHES_KEPT)
        self._tables: dict[str, _TableCounts] = {}
        self._history: deque[Point] = deque(maxlen=POINTS_KEPT)
        self._source: SourceView | None = None
        self._group_failures = 0
        """Of the sources before this one."""
        self._open_tables: Callable[[], Mapping[str, OpenTable]] = dict
        self.config: PipelineConfig | None = None
        """What the pipeline runs by, once it does: a reload changes it."""
        self.commands: tuple[str, ...] = ()
        """What the running pipeline can be asked to do with a table."""

    def look_at(self, source: SourceView, tables: Callable[[], Mapping[str, OpenTable]]) -> None:
        """Where to find lag and tables from now on; both are asked whenever somebody looks."""
        with self._lock:
            if self._source is not None and self._source is not source:
                self._group_failures += self._source.group_failure_count
            self._source, self._open_tables = source, tables

    def open_table(self, name: str) -> OpenTable | None:
        """A table that the driver holds in memory, if it has opened it."""
        return self._open_tables().get(name)

    def enter(self, phase: Phase, reason: str = "", public_reason: str = WHERE_MORE) -> None:
        """The pipeline is in this phase now; a failure stays. ``public_reason`` holds no values of rows."""
        with self._lock:
            if self._phase is not Phase.FAILED:
                self._phase, self._reason, self._public_reason = phase, reason, public_reason

    def put_table(
        self,
        name: str,
        standing: Standing,
        reason: str = "",
        public_reason: str = WHERE_MORE,
        since_s: float | None = None,
        has_bad_records: bool = False,
    ) -> None:
        """The table takes part in this way; ``reason`` says why it does not run, ``since_s`` since when it does not.

        ``public_reason`` says it without values of rows, ``has_bad_records`` whether these are why.
        """
        with self._lock:
            counts = self._tables.setdefault(name, _TableCounts())
            counts.since_s = None if standing is Standing.RUNNING else since_s or counts.since_s or self._now()
            counts.standing, counts.reason, counts.public_reason = standing, reason, public_reason
            counts.has_bad_records = has_bad_records

    def without_tables(self, names: Collection[str]) -> None:
        """The pipeline writes these no more: they are not shown any longer."""
        with self._lock:
            for name in names:
                self._tables.pop(name, None)

    def put_beside(self, works: Mapping[str, Beside]) -> None:
        """What goes on beside the stream now, by table; all else has ended."""
        with self._lock:
            for name in works:
                self._tables.setdefault(name, _TableCounts())
            for name, counts in self._tables.items():
                counts.beside = works.get(name)
                if counts.beside is None:
                    counts.beside_rows, counts.slice_s = 0, None

    def slice_done(self, name: str, report: BatchReport, opened: OpenTable | None) -> None:
        """Work beside the stream has brought a slice into a table; into another one for its sake without ``opened``."""
        rows = [table for table in report.tables if table.identifier == name]
        with self._lock:
            counts = self._tables.setdefault(name, _TableCounts())
            counts.slice_s = self._now()
            counts.beside_rows += sum(table.row_count for table in rows)
            self._count_reasons(report.quarantined_reasons)
            for table in rows if opened is not None else ():
                counts.add(table)
        if opened is not None:
            self.table_changed(name, opened)

    def table_changed(self, name: str, opened: OpenTable) -> None:
        """Work beside the stream has left a table so; the stream sees it with its next batch."""
        stream = self.open_table(name)
        with self._lock:
            counts = self._tables.setdefault(name, _TableCounts())
        if stream is not None:
            _look(counts, stream)
        counts.take(opened)

    def retried(self, what: str) -> None:
        """Something that failed is done again."""
        with self._lock:
            self._retries[what] += 1

    def beside(self, identifier: str, report: BatchReport) -> None:
        """See ``BatchObserver``; ``slice_done`` hears of it with the table."""

    def begin(self, batch_id: int) -> None:
        """See ``BatchObserver``."""
        with self._lock:
            self._running.setdefault(batch_id, self._now())

    def end(self, report: BatchReport) -> None:
        """See ``BatchObserver``."""
        seconds = report.seconds_since(self._ended_s)
        with self._lock:
            self._ended_s = report.ended_s
            self._running.pop(report.batch_id, None)
            self._records += report.record_count
            self._skipped.update(report.counts.skipped)
            self._count_reasons(report.quarantined_reasons)
            self._retries.update(report.retries)
            _add(self._steps, report.seconds)
            _add(self._task_steps, report.task_seconds)
            self._batch_count += 1
            self._batch_seconds += seconds
            self._counts_at_most.update(bound for bound in DURATION_BOUNDS_S if seconds <= bound)
            for table in report.tables:
                self._tables.setdefault(table.identifier, _TableCounts()).add(table)
            rows = sum(table.row_count for table in report.tables)
            done = (report.batch_id, self._now(), seconds, report.record_count, rows, len(report.tables))
            self._batches.append(BatchView(*done, dict(report.seconds)))

    def note_point(self) -> None:
        """Remember a point of what is drawn over time, if it is time for one."""
        now_s = self._now()
        if self._history and now_s - self._history[-1].time_s < POINT_EVERY_S:
            return
        seen = self.view(shapes=False)
        self._history.append(Point(now_s, seen.records, seen.lag_records, seen.lag_s))

    def view(self, *, shapes: bool = True) -> PipelineView:
        """What there is to see now; without ``shapes`` the tables have those that were seen before."""
        now_s, source = self._now(), self._source
        opened = dict(self._open_tables()) if shapes else {}
        places = () if source is None else source.lag.places(now_s)
        with self._lock:
            for name in opened:
                self._tables.setdefault(name, _TableCounts())
            counts = dict(self._tables)
        for name, one in opened.items():
            _look(counts[name], one)
        with self._lock:
            running = min(self._running, default=None)
            durations = {bound: self._counts_at_most[bound] for bound in DURATION_BOUNDS_S}
            return PipelineView(
                self.name,
                self._phase,
                self._reason,
                self._checkpoint,
                self._records,
                dict(self._skipped),
                dict(self._quarantined),
                dict(self._retries),
                dict(self._steps),
                dict(self._task_steps),
                Durations(durations, self._batch_count, self._batch_seconds),
                running,
                None if running is None else self._running[running],
                tuple(self._batches),
                tuple(_table_view(name, counts[name]) for name in sorted(counts)),
                places,
                None if source is None else source.silent_s,
                tuple(self._history),
                {} if source is None else dict(source.losses.offsets),
                self._group_failures + (0 if source is None else source.group_failure_count),
                None if source is None else source.unread_bytes,
                self._public_reason,
            )

    def _count_reasons(self, reasons: Mapping[str, int]) -> None:
        for reason, count in reasons.items():
            is_full = reason not in self._quarantined and len(self._quarantined) >= REASONS_KEPT
            self._quarantined[OTHER_REASONS if is_full else reason] += count


def _look(counts: _TableCounts, opened: OpenTable) -> None:
    """Take the newest state of the stream; the same value was looked at before."""
    state = opened.state
    if state is not counts.seen:
        counts.take(opened)
        counts.seen = state


def _table_view(name: str, counts: _TableCounts) -> TableView:
    snapshot, beside = counts.snapshot, counts.beside
    return TableView(
        name,
        counts.standing,
        counts.reason,
        counts.since_s,
        counts.events,
        counts.rows,
        counts.changelog_rows,
        0 if snapshot is None else snapshot.id,
        None if snapshot is None else snapshot.time_ms / 1000,
        counts.shape,
        counts.public_reason,
        None if beside is None else replace(beside, rows=counts.beside_rows, slice_s=counts.slice_s),
        dict(counts.unsent),
        counts.has_bad_records,
    )


def _add(sums: dict[str, float], more: Mapping[str, float]) -> None:
    for step, seconds in more.items():
        sums[step] = sums.get(step, 0.0) + seconds
