"""Records that were still to be read when they went from Kafka: what a position and the bounds of a partition tell."""

from __future__ import annotations

from collections.abc import Mapping

from sources.positions import Bounds, Place

MOST_TOLD = 5


def lost_records(positions: Mapping[Place, int], bounds: Mapping[Place, Bounds]) -> str:
    """The partitions whose records from a position on are not all there, in words; empty when none is.

    ``positions`` are the offsets of the next records to read.
    """
    losses = [loss for place, at in sorted(positions.items()) if (loss := _loss(place, at, bounds.get(place)))]
    if len(losses) > MOST_TOLD:
        losses = [*losses[:MOST_TOLD], f"and so {len(losses) - MOST_TOLD} more partitions"]
    return "; ".join(losses)


def _loss(place: Place, at: int, held: Bounds | None) -> str:
    where = f"topic {place[0]} partition {place[1]}"
    if held is None:
        return f"{where} is gone, read up to offset {at}: the topic was deleted"
    if at > held.end:
        return f"{where} went back from offset {at} to {held.end}: the topic was made anew"
    if at < held.begin:
        return (
            f"{where} begins at offset {held.begin}, read up to {at}: {held.begin - at} offsets are gone (retention, or"
            " deleted records)"
        )
    return ""
