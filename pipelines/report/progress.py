"""One line per micro-batch and a sign of life between them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from pipelines.batch.batch_report import BatchObserver, BatchReport
from pipelines.report.heartbeat import Heartbeat
from sources.changes import DecodeCounts
from sources.wording import counted, first_of, skip_words

log = logging.getLogger(__name__)

TABLES_SHOWN = 3
REASONS_SHOWN = 3


class ProgressLine(BatchObserver):
    """Logs the batches of one pipeline; ``tick`` is called on the main thread."""

    def __init__(self, pipeline: str, quarantine: str = "", now: Callable[[], float] = time.monotonic) -> None:
        self.pipeline = pipeline
        self._is_first = True
        self._quarantine = quarantine
        self._now = now
        self._heartbeat = Heartbeat(now())
        self._running: dict[int, None] = {}

    def begin(self, batch_id: int) -> None:
        self._running[batch_id] = None
        self._heartbeat.moved(self._now(), min(self._running))

    def end(self, report: BatchReport) -> None:
        self._running.pop(report.batch_id, None)
        self._heartbeat.moved(self._now(), min(self._running, default=None))
        line = progress_line(report, self._is_first, self._quarantine)
        self._is_first = False
        level = logging.WARNING if report.counts.quarantined else logging.INFO
        extra = {"event": "batch", "pipeline": self.pipeline, "fields": batch_fields(report)}
        log.log(level, "%s: %s", self.pipeline, line, extra=extra)

    def beside(self, identifier: str, report: BatchReport) -> None:
        """The catch-up reports itself; bad records are logged here."""
        if report.counts.quarantined:
            where = f" in {self._quarantine}" if self._quarantine else ""
            reasons = reasons_text(report.quarantined_reasons)
            log.warning(
                "%s: table %s: %s of %s records read alongside the stream are quarantined%s%s",
                self.pipeline,
                identifier,
                f"{report.counts.quarantined:,}",
                f"{report.record_count:,}",
                where,
                f": {reasons}" if reasons else "",
                extra={
                    "event": "slice",
                    "pipeline": self.pipeline,
                    "table": identifier,
                    "fields": slice_fields(report),
                },
            )

    def tick(self, is_busy_beside: bool = False, is_source_silent: bool = False) -> str:
        """Print the lines that are due; gives the current work. The arguments are those of ``Heartbeat.now``."""
        due = self._heartbeat.due(self._now(), is_busy_beside, is_source_silent)
        if due is not None:
            log.info("%s: %s", self.pipeline, due, extra={"event": "alive", "pipeline": self.pipeline})
        return f"{self.pipeline}: {self._heartbeat.now(self._now(), is_busy_beside, is_source_silent)}"


def batch_fields(report: BatchReport) -> Mapping[str, object]:
    """The result of a batch, for machines."""
    return {
        "batch": report.batch_id,
        "records": report.record_count,
        "seconds": round(report.wall_s, 3),
        "rows": {table.identifier: table.row_count for table in report.tables},
        "quarantined": dict(report.quarantined_reasons),
        "skipped": report.counts.skipped,
        "step_seconds": {step: round(took, 3) for step, took in report.seconds.items()},
    }


def slice_fields(report: BatchReport) -> Mapping[str, object]:
    """The result of a slice alongside the stream, for machines."""
    return {"records": report.record_count, "quarantined": dict(report.quarantined_reasons)}


def progress_line(report: BatchReport, is_first: bool = False, quarantine: str = "") -> str:
    """``batch 3: 50,000 records in 1.9 s (26,316/s) -> lake.orders 31,200, lake.customers 18,800``.

    The first batch of a run has no rate: most of its time is startup time.
    """
    seconds = report.wall_s
    rate = f" ({report.record_count / seconds:,.0f}/s)" if seconds > 0 and report.record_count else ""
    if is_first:
        rate = ", with the start of the workers"
    line = f"batch {report.batch_id}: {counted(report.record_count, 'record')} in {seconds:.1f} s{rate}"
    written = _busiest({table.identifier: table.row_count for table in report.tables})
    if written:
        line += f" -> {written}"
    if report.counts.quarantined:
        line += f"; {report.counts.quarantined:,} quarantined{f' in {quarantine}' if quarantine else ''}"
        reasons = reasons_text(report.quarantined_reasons)
        line += f": {reasons}" if reasons else ""
    if report.paused:
        names = first_of(sorted(report.paused), TABLES_SHOWN, "tables")
        line += f"; without {', '.join(names)}, which {'is' if len(report.paused) == 1 else 'are'} behind"
    return line + asides(report.counts)


def asides(counts: DecodeCounts) -> str:
    """``; skipped: 120 tombstones, 3 of skipped tables; 5 decoded one by one``, as far as there were any."""
    skipped = ", ".join(skip_words(counts.skipped))
    text = f"; skipped: {skipped}" if skipped else ""
    return f"{text}; {counts.exact:,} decoded one by one" if counts.exact else text


def reasons_text(reasons: Mapping[str, int], shown: int = REASONS_SHOWN) -> str:
    """``12 value is not JSON; 1 column total: ... is no number``, the most frequent ones first."""
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    texts = [f"{count:,} {reason}" for reason, count in ordered[:shown]]
    if len(ordered) > shown:
        texts.append(f"{sum(count for _, count in ordered[shown:]):,} for other reasons")
    return "; ".join(texts)


def _busiest(table_rows: Mapping[str, int]) -> str:
    ordered = sorted(table_rows.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(first_of([f"{name} {rows:,}" for name, rows in ordered], TABLES_SHOWN, "tables"))
