"""The totals of one pipeline's batches since its start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pipelines.batch.batch_report import BatchObserver, BatchReport
from sinks.write.unsent import Unsent
from sources.changes import DecodeCounts


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over batches."""

    record_count: int = 0
    counts: DecodeCounts = field(default_factory=DecodeCounts)
    """The records by outcome."""
    seconds: float = 0.0
    """Wall time of the batches; they overlap, because one begins while the one before is still compacted."""
    quarantined_reasons: Mapping[str, int] = field(default_factory=dict)
    first_record_count: int = 0
    first_seconds: float = 0.0
    """Records and seconds of the first batch, in which Spark's workers start."""
    unsent: Mapping[str, Unsent] = field(default_factory=dict)
    """Per table: values that the source left out and no row gives for certain."""
    beside: Mapping[str, int] = field(default_factory=dict)
    """Records read alongside the stream, by table, including quarantined records."""
    beside_quarantined: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Of these the bad ones, by table and kind of reason."""


class RunTotals(BatchObserver):
    """Adds up."""

    def __init__(self) -> None:
        self.totals = Totals()
        self._is_first = True

    def end(self, report: BatchReport) -> None:
        so_far, is_first, self._is_first = self.totals, self._is_first, False
        self.totals = replace(
            so_far,
            record_count=so_far.record_count + report.record_count,
            counts=so_far.counts + report.counts,
            seconds=so_far.seconds + report.wall_s,
            quarantined_reasons=dict(Counter(so_far.quarantined_reasons) + Counter(report.quarantined_reasons)),
            first_record_count=report.record_count if is_first else so_far.first_record_count,
            first_seconds=report.wall_s if is_first else so_far.first_seconds,
            unsent=_with_unsent(so_far.unsent, report),
        )

    def beside(self, identifier: str, report: BatchReport) -> None:
        so_far = self.totals
        records = so_far.beside.get(identifier, 0) + report.record_count
        bad = Counter(so_far.beside_quarantined.get(identifier, {})) + Counter(report.quarantined_reasons)
        self.totals = replace(
            so_far,
            beside={**so_far.beside, identifier: records},
            beside_quarantined={**so_far.beside_quarantined, identifier: bad} if bad else so_far.beside_quarantined,
            unsent=_with_unsent(so_far.unsent, report),
        )


def _with_unsent(so_far: Mapping[str, Unsent], report: BatchReport) -> Mapping[str, Unsent]:
    more = {table.identifier: Counter(table.unsent) for table in report.tables if table.unsent}
    return {**so_far, **{name: Counter(so_far.get(name, {})) + counts for name, counts in more.items()}}
