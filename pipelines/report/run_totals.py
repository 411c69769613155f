"""What the batches of one pipeline brought together since its start."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pipelines.batch.batch_report import BatchReport
from sources.changes import DecodeCounts


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over batches."""

    record_count: int = 0
    counts: DecodeCounts = field(default_factory=DecodeCounts)
    """What became of the records."""
    seconds: float = 0.0
    """Wall time of the batches; they overlap, because one begins while the one before is still compacted."""
    quarantined_reasons: Mapping[str, int] = field(default_factory=dict)
    first_record_count: int = 0
    first_seconds: float = 0.0
    """Those of the first batch, in which Spark's workers start."""


class RunTotals:
    """A ``BatchObserver`` that adds up."""

    def __init__(self) -> None:
        self.totals = Totals()
        self._ended_s = -math.inf

    def begin(self, batch_id: int) -> None:
        """Only batches that end count."""

    def end(self, report: BatchReport) -> None:
        seconds = report.seconds_since(self._ended_s)
        so_far = self.totals
        is_first = self._ended_s == -math.inf
        self.totals = Totals(
            so_far.record_count + report.record_count,
            so_far.counts + report.counts,
            so_far.seconds + seconds,
            dict(Counter(so_far.quarantined_reasons) + Counter(report.quarantined_reasons)),
            report.record_count if is_first else so_far.first_record_count,
            seconds if is_first else so_far.first_seconds,
        )
        self._ended_s = report.ended_s
