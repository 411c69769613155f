"""How many records a batch takes, and when the next one begins.

A batch has as many records as take about as long as the last ones show, however large they are. So it stays short, and
small in memory. Part of that time is the same for a batch of any size (a commit on object storage). It may take up to
half, so that small batches do not make the work endless. Slices that are read between batches follow the same rule.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from statistics import linear_regression
from typing import Protocol

FIRST_RECORDS = 10_000
LEAST_RECORDS = 1_000
_STEP = 4
"""By how much a batch may be larger or smaller than the one before."""

_SHOWN = 6
"""How many recent batches predict the duration of the next; the slowest does not count, as it may have waited."""

_ALIKE = 1.5
"""Batches whose sizes differ by less show nothing about the fixed cost of each."""

_LOOKS = 10
"""The checks of an idle source within an interval, but at most one per second."""

_LONGEST_WAIT_S = 0.25
"""How long one question of Spark's waits here: a query that waits for its answer cannot be stopped."""


class Pace:
    """How many records the batches of one stream, or the slices of one table, take. One thread at a time."""

    def __init__(self, most_records: int, target_s: float | None, first_records: int = FIRST_RECORDS) -> None:
        """``target_s`` is how long a batch is to take; None: each takes as many records as it may."""
        self._most = most_records
        self._target_s = target_s
        self._records = most_records if target_s is None else min(first_records, most_records)
        self._shown: deque[tuple[int, float]] = deque(maxlen=_SHOWN)
        self._same_s = 0.0

    @property
    def records(self) -> int:
        """How many the next batch is to have."""
        return self._records

    def done(self, records: int, seconds: float) -> None:
        """A batch has taken so long."""
        if self._target_s is None or records <= 0:
            return
        if records * 2 < self._records and seconds <= self._target_s:
            return  # the end of the available input
        self._shown.append((records, seconds))
        usual = sorted(self._shown, key=lambda one: one[1] / one[0])
        usual = usual[: max(1, len(usual) - 1)]
        self._same_s = self._seen_same(usual)
        wanted_s = max(self._target_s, 2 * self._same_s)
        count, total_s = sum(n for n, _ in usual), sum(s for _, s in usual)
        per_record_s = max(total_s - len(usual) * self._same_s, 0.1 * total_s, 1e-6) / count
        wanted = int((wanted_s - self._same_s) / per_record_s)
        near = max(records // _STEP, min(wanted, self._records * _STEP))
        self._records = max(1, min(self._most, max(LEAST_RECORDS, near)))

    def _seen_same(self, usual: Sequence[tuple[int, float]]) -> float:
        """The fixed time of a batch of any size: the intercept of the line through the last batches."""
        least_s = min(seconds for _, seconds in usual)
        sizes = [records for records, _ in usual]
        if max(sizes) < _ALIKE * min(sizes):
            return min(self._same_s, least_s)
        line = linear_regression(sizes, [seconds for _, seconds in usual])
        return min(max(0.0, line.intercept), least_s)


class PlansEnds(Protocol):
    """Says where batches end. Called one at a time; offsets are JSON, equal exactly when their texts are."""

    @property
    def is_cut(self) -> bool:
        """Whether the batch that was planned last left records for another one."""
        ...

    def latest_offset(self, start: str) -> str:
        """The end of the batch that begins at ``start``; ``start`` itself when there is nothing more."""
        ...


class Cadence:
    """When the batches of one stream begin: ``interval_s`` apart, but at once after one that could not take all."""

    def __init__(
        self,
        interval_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._sleep = sleep
        self._due_s = clock()

    def latest_offset(self, planner: PlansEnds, start: str) -> str:
        """The end of the batch that begins at ``start``; ``start`` itself if no batch is due, or nothing is new."""
        wait_s = self._due_s - self._clock()
        if wait_s > 0:
            self._sleep(min(wait_s, _LONGEST_WAIT_S))
            if wait_s > _LONGEST_WAIT_S:
                return start
        end = planner.latest_offset(start)
        if end == start:
            self._due_s = self._clock() + min(self._interval_s, max(1.0, self._interval_s / _LOOKS))
        elif not planner.is_cut:
            self._due_s = self._clock() + self._interval_s
        return end
