"""What one batch did and where its time went, for progress lines, the summary and benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TableReport:
    """What one batch brought to one table."""

    identifier: str
    row_count: int
    bucket_count: int
    snapshot_ids: tuple[int, ...]
    changelog_row_count: int


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What one batch did, for progress lines and the summary. ``seconds`` holds wall time per step of the driver.

    ``started_s`` and ``ended_s`` are readings of one monotonic clock. A batch may end after the next one has started.
    """

    batch_id: int
    record_count: int
    quarantined_count: int
    skipped: Mapping[str, int]
    """Records that give nothing on purpose, by a word for why; without zeros."""
    tables: tuple[TableReport, ...]
    seconds: dict[str, float]
    task_seconds: dict[str, float]
    """Time inside the tasks per step, summed over tasks that run side by side."""
    started_s: float
    ended_s: float
    quarantined_reasons: Mapping[str, int] = field(default_factory=dict)
    """How many records went to quarantine for which kind of reason."""


class Stopwatch:
    """Wall time between laps, by name."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.laps: dict[str, float] = {}
        self._now = now
        self.started_s = self.last_s = now()

    def lap(self, name: str) -> None:
        now = self._now()
        self.laps[name] = self.laps.get(name, 0.0) + now - self.last_s
        self.last_s = now
