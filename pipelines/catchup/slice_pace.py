"""How many records the slices beside a stream take: so many that the stream waits about as long for each of them.

Batches and slices take turns, so a slice is what all tables of the pipeline lag by while one of them is caught up,
replayed or rebuilt. What a record takes is seen by what the last slices took. Part of that is the same for a slice of
any size (a commit on object storage); it may take up to half, so that small slices do not make the work endless.
"""

from __future__ import annotations

SLICE_S = 2.0
"""How long a slice is to take, unless what is the same for each of them takes more than half of that."""

FIRST_RECORDS = 10_000
LEAST_RECORDS = 1_000
_STEP = 4
"""By how much a slice may be larger or smaller than the one before."""

_ALIKE = 1.5
"""Slices whose sizes differ by less tell nothing of what is the same for each."""


class SlicePace:
    """Of the slices of one table. One thread."""

    def __init__(self, most_records: int, slice_s: float | None = SLICE_S) -> None:
        """``slice_s`` None: no stream waits, and each slice takes as many records as it may."""
        self._most = most_records
        self._slice_s = slice_s
        self._records = most_records if slice_s is None else min(FIRST_RECORDS, most_records)
        self._last: tuple[int, float] | None = None
        self._same_s = 0.0

    @property
    def records(self) -> int:
        """How many the next slice is to have."""
        return self._records

    def done(self, records: int, seconds: float) -> None:
        """A slice has taken so long."""
        if self._slice_s is None or records <= 0:
            return
        if records * 2 < self._records and seconds <= self._slice_s:
            return  # the end of what there is
        self._same_s = self._seen_same(records, seconds)
        self._last = (records, seconds)
        wanted_s = max(self._slice_s, 2 * self._same_s)
        per_record_s = max(seconds - self._same_s, 0.1 * seconds, 1e-6) / records
        wanted = int((wanted_s - self._same_s) / per_record_s)
        near = max(records // _STEP, min(wanted, self._records * _STEP))
        self._records = max(1, min(self._most, max(LEAST_RECORDS, near)))

    def _seen_same(self, records: int, seconds: float) -> float:
        """What two slices of different sizes took alike."""
        if self._last is None:
            return self._same_s
        other, other_s = self._last
        if max(records, other) < _ALIKE * min(records, other):
            return min(self._same_s, seconds)
        slope_s = (seconds - other_s) / (records - other)
        return min(max(0.0, seconds - slope_s * records), seconds, other_s)
