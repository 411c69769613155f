"""The work of one batch and where its time went, for its observers: progress lines, totals, benchmarks, live views."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sinks.write.unsent import Unsent
from sources.changes import DecodeCounts

if TYPE_CHECKING:
    from pipelines.batch.decode_report import BadKind
    from sources.changes import SourceTable


@dataclass(frozen=True, slots=True)
class TableReport:
    """The effect of one batch on one table."""

    identifier: str
    row_count: int
    changelog_row_count: int
    event_count: int = 0
    """Records that gave rows for the table."""
    unsent: Unsent = field(default_factory=dict)
    """Values that the source did not send and that no row has for certain."""
    is_truncated: bool = False
    """Whether all earlier rows were deleted, because the source table was truncated."""
    late_row_count: int = 0
    """Late rows: newer ones of their key had arrived before."""


@dataclass(frozen=True, slots=True)
class BatchReport:
    """The result of one batch.

    ``seconds`` holds wall time per step of the driver. ``started_s`` and ``ended_s`` are readings of one monotonic
    clock. A batch may end after the next one has started: for observers it then begins at the end of the batch before.
    """

    batch_id: int
    record_count: int
    counts: DecodeCounts
    """The records by outcome."""
    tables: tuple[TableReport, ...]
    seconds: Mapping[str, float]
    task_seconds: Mapping[str, float]
    """Time inside the tasks per step, summed over parallel tasks."""
    started_s: float
    ended_s: float
    bad_kinds: Mapping[BadKind, int] = field(default_factory=dict)
    """How many records went to quarantine, by source and kind of reason."""
    ends: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Per (topic, partition) the offset after the last record of the batch."""
    newest_s: Mapping[tuple[str, int], float] = field(default_factory=dict)
    """The newest time of those records."""
    retries: Mapping[str, int] = field(default_factory=dict)
    """How often the batch was planned again, by reason."""
    paused: Mapping[str, str] = field(default_factory=dict)
    """Tables outside the stream at the end of the batch, with the reason."""
    skipped: Mapping[SourceTable, int] = field(default_factory=dict)
    """The number of records from source tables without a rule."""

    @property
    def quarantined_reasons(self) -> Mapping[str, int]:
        """How many records went to quarantine, by kind of reason."""
        reasons: Counter[str] = Counter()
        for (_, _, reason), count in self.bad_kinds.items():
            reasons[reason] += count
        return reasons

    @property
    def wall_s(self) -> float:
        """Wall time of the batch."""
        return self.ended_s - self.started_s

    def after(self, ended_s: float) -> BatchReport:
        """The report without the time that the batch shares with one that ended at ``ended_s``."""
        return replace(self, started_s=max(self.started_s, ended_s))


class BatchObserver:
    """Observes the batches of one pipeline; subclasses override the calls that they need.

    ``begin`` and ``end`` run on two threads, possibly at the same time. The pipeline waits for them, and an exception
    in them ends it. Every batch that ends has begun; one that fails does not end.
    """

    def begin(self, batch_id: int) -> None:
        """A batch begins, possibly again."""

    def end(self, report: BatchReport) -> None:
        """Rows, compactions and changelog of a batch are in the tables."""

    def beside(self, identifier: str, report: BatchReport) -> None:
        """Report a slice whose rows are now in its table; only called while no batch runs."""


class Stopwatch:
    """Wall time between laps, by name."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self.started_s = self.last_s = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = self.laps.get(name, 0.0) + now - self.last_s
        self.last_s = now
