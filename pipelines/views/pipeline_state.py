"""One running pipeline for its viewers: a ``BatchObserver`` that keeps numbers and requests nothing.

Viewers (metrics, `status`, the page) get a view. Views use what the driver holds in memory anyway, and send no request
to the storage or the source.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping

from paimon_table.errors import WHERE_MORE
from pipelines.batch.batch_report import BatchObserver, BatchReport
from pipelines.catchup.shown_standing import Standing
from pipelines.config.config import PipelineConfig
from pipelines.tables.target_names import NO_TABLE, TargetNames
from pipelines.views.bad_counts import BadCounts, Group, TableOf
from pipelines.views.event_log import EventLog
from pipelines.views.table_counts import OpenTable, OutOfStream, TableCounts
from pipelines.views.table_views import BatchView, Beside, Durations, EventKind, Phase, PipelineView, Point
from sources.reader import SourceView

BATCHES_KEPT = 60
POINTS_KEPT = 720
POINT_EVERY_S = 5.0
DURATION_BOUNDS_S = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0)


class PipelineState(BatchObserver):
    """Fed by the pipeline's threads, seen by others. ``now`` is the wall clock.

    ``slice_done`` gets the report of a slice together with its table.
    """

    def __init__(self, name: str, checkpoint: str = "", now: Callable[[], float] = time.time) -> None:
        self.name = name
        self._checkpoint = checkpoint
        self._now = now
        self._lock = threading.Lock()
        self._phase, self._reason, self._public_reason = Phase.STARTING, "", WHERE_MORE
        self._records = 0
        self._skipped: Counter[str] = Counter()
        self._bad = BadCounts()
        self._log = EventLog()
        self._retries: Counter[str] = Counter()
        self._steps: dict[str, float] = {}
        self._task_steps: dict[str, float] = {}
        self._counts_at_most: Counter[float] = Counter()
        self._batch_count, self._batch_seconds = 0, 0.0
        self._running: dict[int, float] = {}
        self._batches: deque[BatchView] = deque(maxlen=BATCHES_KEPT)
        self._tables: dict[str, TableCounts] = {}
        self._history: deque[Point] = deque(maxlen=POINTS_KEPT)
        self._source: SourceView | None = None
        self._group_failures = 0
        """Of the sources before this one."""
        self._open_tables: Callable[[], Mapping[str, OpenTable]] = dict
        self.has_new_bad_records = threading.Event()
        """Set when the quarantine has changed; a count of its records clears it."""
        self.config: PipelineConfig | None = None
        """The settings that the pipeline runs with; a reload changes them."""
        self.commands: tuple[str, ...] = ()
        """The actions that the running pipeline offers for a table."""

    def look_at(self, source: SourceView, tables: Callable[[], Mapping[str, OpenTable]]) -> None:
        """Set the sources of lag and tables; each view asks both."""
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
                told = self._unnamed(reason), self._unnamed(public_reason)
                self._log.entered(self._now(), self._phase, phase, *told)
                self._phase, self._reason, self._public_reason = phase, reason, public_reason
            if phase is Phase.WAITING:
                self._running.clear()  # the next query runs it again

    def note(self, kind: EventKind, reason: str = "", table: str = "", public_reason: str | None = None) -> None:
        """Something has happened that those who look should know; see ``EventLog.note``."""
        with self._lock:
            told = None if public_reason is None else self._unnamed(public_reason)
            self._log.note(self._now(), kind, table, self._unnamed(reason), told)

    def continued(self, name: str, text: str) -> None:
        """The table continues another one, because the primary key of its source has changed."""
        with self._lock:
            self._tables.setdefault(name, TableCounts()).schema_changes["primary_key"] += 1
            self._log.note(self._now(), EventKind.SCHEMA, name, text)

    def _unnamed(self, text: str) -> str:
        """A reason as its own pipeline shows it."""
        return text.removeprefix(f"pipeline {self.name}: ")

    def put_table(self, name: str, standing: Standing, out: OutOfStream | None = None) -> None:
        """The table takes part in this way; ``out`` says why it does not run, if so."""
        out = out or OutOfStream()
        with self._lock:
            counts = self._tables.setdefault(name, TableCounts())
            if (counts.standing, counts.out.reason) != (standing, out.reason):
                is_old = standing is Standing.PAUSED and counts.since_s is None and out.since_s is not None
                time_s = out.since_s if is_old and out.since_s is not None else self._now()
                self._log.stands(time_s, name, standing, out.reason, out.public_reason)
            counts.since_s = None if standing is Standing.RUNNING else out.since_s or counts.since_s or self._now()
            counts.standing, counts.out, counts.topics = standing, out, counts.topics | {*out.topics}

    def without_tables(self, names: Collection[str]) -> None:
        """Stop showing these tables, because the pipeline no longer writes them."""
        with self._lock:
            for name in names:
                self._tables.pop(name, None)

    def put_beside(self, works: Mapping[str, Beside]) -> None:
        """Set the present work alongside the stream, by table; all other work has ended."""
        with self._lock:
            for name in works:
                self._tables.setdefault(name, TableCounts())
            for name, counts in self._tables.items():
                counts.beside = works.get(name)
                if counts.beside is None:
                    counts.beside_rows, counts.slice_s = 0, None

    def slice_done(self, name: str, report: BatchReport, opened: OpenTable | None) -> None:
        """Count a slice alongside the stream for a table; without ``opened``, it wrote the branch of a rebuild."""
        rows = [table for table in report.tables if table.identifier == name]
        with self._lock:
            counts = self._tables.setdefault(name, TableCounts())
            counts.slice_s = self._now()
            counts.beside_rows += sum(table.row_count for table in rows)
            self._note_bad(report)
            for table in rows if opened is not None else ():
                counts.add(table)
        if opened is not None:
            self.table_changed(name, opened)

    def table_changed(self, name: str, opened: OpenTable) -> None:
        """Take the state of a table after work alongside the stream; the stream sees it with its next batch."""
        stream = self.open_table(name)
        with self._lock:
            counts = self._tables.setdefault(name, TableCounts())
            if stream is not None:
                self._look(name, stream)
            counts.take(opened)

    def retried(self, what: str) -> None:
        """Something that failed is done again."""
        with self._lock:
            self._retries[what] += 1

    def begin(self, batch_id: int) -> None:
        """See ``BatchObserver``."""
        with self._lock:
            self._running.setdefault(batch_id, self._now())

    def end(self, report: BatchReport) -> None:
        """See ``BatchObserver``."""
        seconds = report.wall_s
        with self._lock:
            self._running.pop(report.batch_id, None)
            self._records += report.record_count
            self._skipped.update(report.counts.skipped)
            self._note_bad(report)
            self._retries.update(report.retries)
            for what, count in report.retries.items():
                self._log.note(self._now(), EventKind.RETRY, "", what, count=count)
            _add(self._steps, report.seconds)
            _add(self._task_steps, report.task_seconds)
            self._batch_count += 1
            self._batch_seconds += seconds
            self._counts_at_most.update(bound for bound in DURATION_BOUNDS_S if seconds <= bound)
            for table in report.tables:
                self._tables.setdefault(table.identifier, TableCounts()).add(table)
            rows = sum(table.row_count for table in report.tables)
            done = (report.batch_id, self._now(), seconds, report.record_count, rows, len(report.tables))
            self._batches.append(BatchView(*done, dict(report.seconds)))

    def note_point(self) -> None:
        """Remember a point of the curves, if one is due."""
        now_s = self._now()
        if self._history and now_s - self._history[-1].time_s < POINT_EVERY_S:
            return
        seen = self.view(shapes=False)
        self._history.append(Point(now_s, seen.records, seen.lag_records, seen.lag_s))

    def view(self, *, shapes: bool = True) -> PipelineView:
        """The current view; without ``shapes`` the tables keep their last known shapes."""
        now_s, source = self._now(), self._source
        opened = dict(self._open_tables()) if shapes else {}
        places = () if source is None else source.lag.places(now_s)
        with self._lock:
            for name, one in opened.items():
                self._tables.setdefault(name, TableCounts())
                self._look(name, one)
            counts = dict(self._tables)
            running = min(self._running, default=None)
            durations = {bound: self._counts_at_most[bound] for bound in DURATION_BOUNDS_S}
            return PipelineView(
                self.name,
                self._phase,
                self._reason,
                self._checkpoint,
                self._records,
                dict(self._skipped),
                dict(self._retries),
                dict(self._steps),
                dict(self._task_steps),
                Durations(durations, self._batch_count, self._batch_seconds),
                running,
                None if running is None else self._running[running],
                tuple(self._batches),
                tuple(counts[name].view(name, places) for name in sorted(counts)),
                places,
                None if source is None else source.silent_s,
                tuple(self._history),
                {} if source is None else dict(source.losses.offsets),
                self._group_failures + (0 if source is None else source.group_failure_count),
                None if source is None else source.unread_bytes,
                self._public_reason,
                self._bad.groups(),
                self._bad.counted_s,
                self._log.events,
            )

    def put_open_bad_records(self, groups: Mapping[Group, int], time_s: float) -> None:
        """The quarantine held these, by table and kind of reason, when a count began at ``time_s``."""
        with self._lock:
            self._bad.put_open(groups, time_s)

    def _note_bad(self, report: BatchReport) -> None:
        if not report.bad_kinds:
            return
        self.has_new_bad_records.set()
        added: Counter[Group] = self._bad.add(report.bad_kinds, self._table_of_bad())
        by_table: Counter[str] = Counter()
        for (table, _), count in added.items():
            by_table[table] += count
        for table, count in by_table.items():
            self._log.note(self._now(), EventKind.BAD_RECORDS, table, count=count)

    def _table_of_bad(self) -> TableOf:
        """Gives the table of a bad record as the list of the quarantine does; unknown before the start."""
        opened = self._open_tables()
        if self.config is None:
            return lambda topic, _: NO_TABLE
        return TargetNames(self.config, lambda: ((name, one.position) for name, one in opened.items())).table

    def _look(self, name: str, opened: OpenTable) -> None:
        changed = self._tables[name].take_of_stream(opened)
        if changed is not None:
            self._log.note(self._now(), EventKind.SCHEMA, name, changed)


def _add(sums: dict[str, float], more: Mapping[str, float]) -> None:
    for step, seconds in more.items():
        sums[step] = sums.get(step, 0.0) + seconds
