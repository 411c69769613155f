"""The progress of a reading alongside the stream, and its Kafka positions after topics or partitions have changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import NonNegativeInt

from sources.positions import Place


@dataclass(frozen=True, slots=True)
class Reached:
    """The progress of a reading alongside the stream. Positions are in the text form of the source."""

    position: str | None = None
    """The begin of its next slice; None: the earliest record."""
    number: NonNegativeInt = 0
    """Of that slice."""
    at_ms: NonNegativeInt = 0
    """The time of this record: no commit of that slice is older."""
    end: str | None = None
    """The end of that slice, if it is planned.

    It is recorded before the slice is read if only the number of the slice shows whether the table has it.
    """
    after: NonNegativeInt = 0
    """The table's newest snapshot then, if others commit to the table too: those of the slice come after it."""

    def done(self, end: str, at_ms: int) -> Reached:
        """Behind that slice, which ended at ``end``."""
        return Reached(end, self.number + 1, at_ms)

    def moved(self, places: Mapping[Place, int | None]) -> Reached:
        """With other positions in partitions of Kafka, see ``Book.move``."""
        return replace(self, position=moved(self.position, places), end=moved(self.end, places))


def places_in(position: str | None) -> set[Place]:
    """The partitions of a position in Kafka."""
    nested = {} if position is None else json.loads(position)
    return {(topic, int(partition)) for topic, offsets in nested.items() for partition in offsets}


def moved(position: str | None, places: Mapping[Place, int | None]) -> str | None:
    """A position in Kafka as if these partitions had not been there yet (None), or no further than an offset."""
    if position is None:
        return None
    nested = {topic: dict(offsets) for topic, offsets in json.loads(position).items()}
    for (topic, partition), end in places.items():
        at = nested.get(topic, {})
        if end is None:
            at.pop(str(partition), None)
        elif str(partition) in at:
            at[str(partition)] = min(end, at[str(partition)])
    return json.dumps({topic: offsets for topic, offsets in nested.items() if offsets}, separators=(",", ":"))
