"""Records that disappeared before they were read, and the losses of a run so far."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from enum import Enum

from sources.positions import Place

MOST_KEPT = 1000


class How(Enum):
    """Why records disappeared."""

    DELETED = "retention, or deleted records"
    WENT_BACK = "the topic was recreated"
    GONE = "the topic was deleted"
    MADE_ANEW = "the topic was deleted and recreated"


@dataclass(frozen=True, slots=True)
class Loss:
    """Offsets of one partition that can no longer be read, from ``begin`` up to but without ``end``.

    Without an ``end``: all later offsets that the topic had before it ended.
    """

    place: Place
    begin: int
    end: int | None
    how: How

    @property
    def offset_count(self) -> int:
        """The number of lost offsets, if known; some may have had no record (compaction, transactions)."""
        return 0 if self.end is None else self.end - self.begin

    def __str__(self) -> str:
        where = f"topic {self.place[0]} partition {self.place[1]}"
        if self.end is None:
            return f"{where}: offsets from {self.begin} on are gone ({self.how.value})"
        last = self.end - 1
        offsets = f"offset {last} is" if last == self.begin else f"offsets {self.begin} to {last} are"
        return f"{where}: {offsets} gone ({self.how.value})"


class Losses:
    """The losses since the start of the process; other threads read them."""

    def __init__(self) -> None:
        self.newest: deque[Loss] = deque(maxlen=MOST_KEPT)
        self.offsets: Counter[Place] = Counter()
        """The number of lost offsets of each partition, if known."""
        self.told: dict[Place, int] = {}
        """The offset up to which losses were reported."""

    def add(self, loss: Loss) -> None:
        self.newest.append(loss)
        self.offsets = self.offsets + Counter({loss.place: loss.offset_count})
