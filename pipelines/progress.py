"""One line on stderr per micro-batch, and the totals of a run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from pipelines.batch_report import BatchReport

TABLES_SHOWN = 3


def stderr_console() -> Console:
    """The console for progress and messages; results go to stdout."""
    return Console(stderr=True, soft_wrap=True, highlight=False, markup=False)


class ProgressLine:
    """Prints a line per batch of one pipeline and adds the batches up. Called by the pipeline's own thread."""

    def __init__(self, pipeline: str, console: Console | None = None) -> None:
        self.pipeline = pipeline
        self.record_count = 0
        self.quarantined_count = 0
        self.skipped: Counter[str] = Counter()
        self.seconds = 0.0
        """Wall time of the batches; they overlap, because one begins while the one before is still compacted."""
        self._ended_s = -math.inf
        self._console = console or stderr_console()
        _LINES[pipeline] = self

    def __call__(self, report: BatchReport) -> None:
        seconds = report.ended_s - max(report.started_s, self._ended_s)
        self._ended_s = report.ended_s
        self.record_count += report.record_count
        self.quarantined_count += report.quarantined_count
        self.skipped.update(report.skipped)
        self.seconds += seconds
        line = progress_line(self.pipeline, report, seconds)
        self._console.print(line, style="yellow" if report.quarantined_count else None)


_LINES: dict[str, ProgressLine] = {}
"""By pipeline; names are unique among the pipelines of one process."""


def progress_of(pipeline: str) -> ProgressLine:
    """The totals of a pipeline of this process; zeros when it ran no batch."""
    return _LINES.get(pipeline) or ProgressLine(pipeline)


def progress_line(pipeline: str, report: BatchReport, seconds: float) -> str:
    """``shop batch 3: 50,000 records in 1.9 s (26,316/s) -> lake.orders 31,200, lake.customers 18,800``."""
    rate = f" ({report.record_count / seconds:,.0f}/s)" if seconds > 0 and report.record_count else ""
    line = f"{pipeline} batch {report.batch_id}: {report.record_count:,} records in {seconds:.1f} s{rate}"
    written = _busiest({table.identifier: table.row_count for table in report.tables})
    if written:
        line += f" -> {written}"
    if report.quarantined_count:
        line += f"; {report.quarantined_count:,} quarantined"
    if report.skipped:
        line += f"; skipped: {skipped_text(report.skipped)}"
    return line


def skipped_text(skipped: Mapping[str, int]) -> str:
    """``120 tombstones, 3 of skipped tables``."""
    return ", ".join(f"{number:,} {word}" for word, number in skipped.items())


def _busiest(table_rows: Mapping[str, int]) -> str:
    ordered = sorted(table_rows.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{name} {rows:,}" for name, rows in ordered[:TABLES_SHOWN]]
    if len(ordered) > TABLES_SHOWN:
        shown.append(f"and {len(ordered) - TABLES_SHOWN} more tables")
    return ", ".join(shown)
