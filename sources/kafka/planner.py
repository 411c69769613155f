"""Plans the batches of topics whose records the decode tasks fetch themselves; lives in the driver, called by Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from paimon_table.errors import Outage
from sources.kafka.lost_records import TopicsChanged, lost_records
from sources.kafka.offset_ranges import limited, offsets_of, ranges_of, shared, text_of, to_bytes
from sources.kafka.start_offsets import refusal_of
from sources.loss import How, Loss
from sources.positions import Bounds, Place, Positions

TOPICS_S = 1.0
"""How long a list of topics is valid, if batches follow each other closely."""

HOLD_S = 10.0
"""The most seconds for the first request of a run that drains its source; nothing can interrupt it."""

LEAST_TOPICS = 8
"""A batch that leaves records for another one reads at least so many topics, and two per task."""


class Offsets(Protocol):
    """The planner's requests to Kafka. Raises Outage if Kafka does not answer."""

    def places(self) -> frozenset[Place]:
        """The partitions that the source reads."""
        ...

    def ends_of(self, places: Sequence[Place]) -> Mapping[Place, int]: ...

    def begins(self, places: Sequence[Place]) -> Mapping[Place, int]: ...

    def bounds_of(self, places: Sequence[Place]) -> Mapping[Place, Bounds]: ...

    def close(self) -> None:
        """Close the connection; a later request opens another."""


class KafkaPlanner:
    """The ``Planner`` of offset ranges."""

    def __init__(
        self,
        offsets: Offsets,
        start: Callable[[], Positions],
        most_records: Callable[[], int],
        slots: int,
        patience_s: float,
        pass_over: Callable[[Sequence[Loss]], None] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``start`` is the begin of the checkpoint, ``most_records`` the limit of the next batch.

        ``pass_over`` reports losses; None: they are refused.
        """
        self._offsets = offsets
        self._start = start
        self._most_records = most_records
        self._slots = slots
        self._patience_s = patience_s
        self._pass_over = pass_over
        self._clock = clock
        self._silent_since_s: float | None = None
        self._places: frozenset[Place] = frozenset()
        self._listed_s = float("-inf")
        self._held: Positions | None = None
        self._batch = 0
        self._turns: dict[str, int] = {}
        """The last batch of each topic."""
        self.is_cut = False

    def initial_offset(self) -> str:
        return text_of(self._start())

    def hold_end(self) -> None:
        """Plan nothing beyond the present ends."""
        began_s = self._clock()
        while self._held is None:
            try:
                self._held = self._ends()
            except Outage:
                if self._clock() - began_s >= HOLD_S:
                    raise

    def latest_offset(self, start: str) -> str:
        """See ``Planner``.

        While Kafka does not answer, and until patience ends, there is nothing more. So the query can be stopped while
        it waits: Spark cannot interrupt a request in this process.
        """
        begins = offsets_of(start)
        try:
            ends = self._ends() if self._held is None else self._held
            ends = self._without_lost(begins, ends)
            new = [place for place in ends if place not in begins]
            known = {**begins, **(self._offsets.begins(new) if new else {})}
        except Outage:
            self._listed_s = float("-inf")
            self._silent_since_s = self._silent_since_s or self._clock()
            if self._clock() - self._silent_since_s >= self._patience_s:
                raise
            return start
        self._silent_since_s = None
        gone = begins.keys() - ends.keys()
        if not gone and not any(end > known[place] for place, end in ends.items()):
            return start
        planned = limited(known, ends, self._most_records(), self._turns, max(LEAST_TOPICS, 2 * self._slots))
        self.is_cut = any(end > planned[place] for place, end in ends.items())
        self._batch += 1
        self._turns |= {topic: self._batch for topic, p in ends if planned[topic, p] > known[topic, p]}
        return text_of(planned)

    def shares(self, start: str, end: str) -> Sequence[bytes]:
        """See ``Planner``; a partition that ``start`` does not name is read from its first record."""
        begins, ends = offsets_of(start), offsets_of(end)
        new = [place for place, at in ends.items() if place not in begins and at > 0]
        if new:
            firsts = self._offsets.begins(new)
            losses = [Loss(place, 0, min(at, ends[place]), How.DELETED) for place, at in firsts.items() if at > 0]
            if losses and self._pass_over is None:
                raise refusal_of(losses, begins)
            if losses and self._pass_over is not None:
                self._pass_over(losses)
            begins |= firsts
        ranges = ranges_of({place: begins.get(place, at) for place, at in ends.items()}, ends)
        return [to_bytes(share) for share in shared(ranges, self._slots)]

    def stop(self) -> None:
        """Close the connection: the JVM may hold this object long after the query."""
        self._offsets.close()

    def _ends(self) -> Positions:
        if self._clock() - self._listed_s >= TOPICS_S:
            self._places = self._offsets.places()
            self._listed_s = self._clock()
        return dict(self._offsets.ends_of(sorted(self._places)))

    def _without_lost(self, begins: Positions, ends: Positions) -> Positions:
        """The ends, if no topic has changed since it was read; raises if the query must not continue."""
        behind = [place for place, at in begins.items() if place not in ends or at > ends[place]]
        if not behind:
            return ends
        held = self._offsets.bounds_of([place for place in behind if place in ends])
        losses = lost_records({place: begins[place] for place in behind}, held)
        if losses and self._pass_over is None:
            raise refusal_of(losses, begins)
        shorter = [loss.place for loss in losses if loss.how is How.WENT_BACK]
        if shorter:
            topic, partition = shorter[0]
            raise TopicsChanged(
                f"topic {topic} partition {partition} ends before the position that was already read; the query "
                "restarts"
            )
        # Read beyond the begin of an open transaction: the partition ends there again soon.
        return {place: max(end, begins.get(place, end)) for place, end in ends.items()}
