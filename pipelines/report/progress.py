"""One line per micro-batch and a sign of life between them, and the totals of a run."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pipelines.report.heartbeat import Heartbeat

if TYPE_CHECKING:
    from pipelines.batch.batch_report import BatchReport

log = logging.getLogger(__name__)

TABLES_SHOWN = 3
REASONS_SHOWN = 3


class ProgressLine:
    """Tells of the batches of one pipeline and adds them up.

    ``begin`` and the call with a report come from the pipeline's own threads, ``tick`` from the main one.
    """

    def __init__(self, pipeline: str, quarantine: str = "", now: Callable[[], float] = time.monotonic) -> None:
        self.pipeline = pipeline
        self.record_count = 0
        self.quarantined_count = 0
        self.skipped: Counter[str] = Counter()
        self.quarantined_reasons: Counter[str] = Counter()
        self.seconds = 0.0
        """Wall time of the batches; they overlap, because one begins while the one before is still compacted."""
        self.first_record_count = 0
        self.first_seconds = 0.0
        """Those of the first batch, in which Spark's workers start."""
        self._batch_count = 0
        self._ended_s = -math.inf
        self._quarantine = quarantine
        self._now = now
        self._heartbeat = Heartbeat(now())
        self._running: dict[int, None] = {}
        _LINES[pipeline] = self

    def begin(self, batch_id: int) -> None:
        """A batch begins; a second plan of the same batch changes nothing."""
        self._running[batch_id] = None
        self._heartbeat.moved(self._now(), min(self._running))

    def __call__(self, report: BatchReport) -> None:
        seconds = report.ended_s - max(report.started_s, self._ended_s)
        self._ended_s = report.ended_s
        self.record_count += report.record_count
        self.quarantined_count += report.quarantined_count
        self.skipped.update(report.skipped)
        self.quarantined_reasons.update(report.quarantined_reasons)
        self.seconds += seconds
        is_first = self._batch_count == 0
        if is_first:
            self.first_record_count, self.first_seconds = report.record_count, seconds
        self._batch_count += 1
        self._running.pop(report.batch_id, None)
        self._heartbeat.moved(self._now(), min(self._running, default=None))
        line = progress_line(report, seconds, is_first, self._quarantine)
        log.log(logging.WARNING if report.quarantined_count else logging.INFO, "%s: %s", self.pipeline, line)

    def tick(self) -> str:
        """Print what is due; gives what is going on now."""
        due = self._heartbeat.due(self._now())
        if due is not None:
            log.info("%s: %s", self.pipeline, due)
        return f"{self.pipeline}: {self._heartbeat.now(self._now())}"


_LINES: dict[str, ProgressLine] = {}
"""By pipeline; names are unique among the pipelines of one process."""


def progress_of(pipeline: str) -> ProgressLine:
    """The totals of a pipeline of this process; zeros when it ran no batch."""
    return _LINES.get(pipeline) or ProgressLine(pipeline)


def progress_line(report: BatchReport, seconds: float, is_first: bool = False, quarantine: str = "") -> str:
    """``batch 3: 50,000 records in 1.9 s (26,316/s) -> lake.orders 31,200, lake.customers 18,800``.

    The first batch of a run has no rate: its time is mostly that of the start.
    """
    rate = f" ({report.record_count / seconds:,.0f}/s)" if seconds > 0 and report.record_count else ""
    if is_first:
        rate = ", the start of the workers in it"
    line = f"batch {report.batch_id}: {report.record_count:,} records in {seconds:.1f} s{rate}"
    written = _busiest({table.identifier: table.row_count for table in report.tables})
    if written:
        line += f" -> {written}"
    if report.quarantined_count:
        line += f"; {report.quarantined_count:,} quarantined{f' in {quarantine}' if quarantine else ''}"
        reasons = reasons_text(report.quarantined_reasons)
        line += f": {reasons}" if reasons else ""
    if report.skipped:
        line += f"; skipped: {skipped_text(report.skipped)}"
    return line


def skipped_text(skipped: Mapping[str, int]) -> str:
    """``120 tombstones, 3 of skipped tables``."""
    return ", ".join(f"{number:,} {word}" for word, number in skipped.items())


def reasons_text(reasons: Mapping[str, int], shown: int = REASONS_SHOWN) -> str:
    """``12 value is not JSON; 1 column total: ... is no number``, the most frequent ones first."""
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    texts = [f"{count:,} {reason}" for reason, count in ordered[:shown]]
    if len(ordered) > shown:
        texts.append(f"{sum(count for _, count in ordered[shown:]):,} for other reasons")
    return "; ".join(texts)


def _busiest(table_rows: Mapping[str, int]) -> str:
    ordered = sorted(table_rows.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{name} {rows:,}" for name, rows in ordered[:TABLES_SHOWN]]
    if len(ordered) > TABLES_SHOWN:
        shown.append(f"and {len(ordered) - TABLES_SHOWN} more tables")
    return ", ".join(shown)
