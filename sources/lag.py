"""How far a pipeline is behind its source, per partition: in records, and in seconds if known.

The age of the first unread record is known only by its bounds. The record was not written before the last record that
was read. It was also not written before a check of the source that did not find it. So the reported lag in seconds is
never too small by more than the clocks differ. It is never too large by more than the time between two checks of the
source.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from sources.positions import Place

_ENDS_KEPT = 256
"""The ends of one partition that are remembered; for older ones the reported lag is too large."""


@dataclass(frozen=True, slots=True)
class PlaceLag:
    """The progress in one partition. None: not known."""

    topic: str
    partition: int
    next_offset: int | None
    """The first record that is in no table yet."""
    end_offset: int | None
    """The end of the partition when it was last seen."""
    records: int | None
    seconds: float | None


class Lag:
    """The partitions of one source: the reader reports progress, the watch reports ends.

    Times are of the wall clock. Safe from several threads.
    """

    def __init__(self) -> None:
        self._places: dict[Place, _Progress] = {}
        self._lock = threading.Lock()

    def read_to(self, offsets: Mapping[Place, int], newest_s: Mapping[Place, float] | None = None) -> None:
        """All records before ``offsets`` are in the tables; ``newest_s`` are the times of the last ones."""
        with self._lock:
            for place, offset in offsets.items():
                progress = self._progress(place)
                progress.next_offset = max(offset, progress.next_offset or 0)
            for place, time_s in (newest_s or {}).items():
                self._progress(place).newest_s = time_s

    def ends_at(self, ends: Mapping[Place, int], now_s: float) -> None:
        """Take the present ends of the source. Partitions that are not named are gone."""
        with self._lock:
            for place in self._places.keys() - ends.keys():
                del self._places[place]
            for place, end in ends.items():
                self._progress(place).ends_at(end, now_s)

    def positions(self) -> dict[Place, int]:
        """The progress of each partition."""
        with self._lock:
            return {p: progress.next_offset for p, progress in self._places.items() if progress.next_offset is not None}

    def places(self, now_s: float) -> tuple[PlaceLag, ...]:
        """Every partition, by topic and number."""
        with self._lock:
            return tuple(progress.lag(*place, now_s) for place, progress in sorted(self._places.items()))

    def _progress(self, place: Place) -> _Progress:
        return self._places.setdefault(place, _Progress())


class _Progress:
    """One partition."""

    __slots__ = ("_ends", "newest_s", "next_offset")

    def __init__(self) -> None:
        self.next_offset: int | None = None
        self.newest_s: float | None = None
        self._ends: deque[tuple[int, float]] = deque(maxlen=_ENDS_KEPT)
        """Different ends, oldest first, each with the time at which it was last seen."""

    def ends_at(self, end: int, now_s: float) -> None:
        if self._ends and self._ends[-1][0] == end:
            self._ends.pop()
        elif self._ends and self._ends[-1][0] > end:
            self._ends.clear()
        self._ends.append((end, now_s))
        while len(self._ends) > 1 and self.next_offset is not None and self._ends[1][0] <= self.next_offset:
            self._ends.popleft()

    def lag(self, topic: str, partition: int, now_s: float) -> PlaceLag:
        at, end = self.next_offset, self._ends[-1][0] if self._ends else None
        if end is None:
            return PlaceLag(topic, partition, at, None, None, None)
        if at is None:
            return PlaceLag(topic, partition, None, end, None, None)
        records = max(0, end - at)
        return PlaceLag(topic, partition, at, max(end, at), records, self._seconds(at, now_s) if records else 0.0)

    def _seconds(self, at: int, now_s: float) -> float | None:
        born = [seen_s for end, seen_s in self._ends if end <= at]
        since = [*born, *(() if self.newest_s is None else (self.newest_s,))]
        return max(0.0, now_s - max(since)) if since else None
