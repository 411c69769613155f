"""Records that disappeared from Kafka before they were read, found from a position and the bounds of a partition."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from paimon_table.errors import Action, TidemarkError
from sources.loss import How, Loss
from sources.positions import Bounds, Place, Reading

MOST_TOLD = 20
"""The most partitions that a refusal names."""


class RecordsLost(TidemarkError):
    """Kafka no longer has the next records to read, and ``on_data_loss`` is ``fail``."""

    is_public = True
    action = Action.STOP


class TopicsChanged(TidemarkError):
    """Topics were recreated or deleted under the running query, which must restart from its position."""

    is_public = True
    action = Action.RETRY


def lost_records(positions: Mapping[Place, int], bounds: Mapping[Place, Bounds]) -> list[Loss]:
    """The losses among the records from each position on: records that Kafka no longer has.

    ``positions`` are the offsets of the next records to read.
    """
    return [loss for place, at in sorted(positions.items()) if (loss := _loss(place, at, bounds.get(place)))]


def _loss(place: Place, at: int, held: Bounds | None) -> Loss | None:
    if held is None:
        return Loss(place, at, None, How.GONE)
    if at > held.end:
        return Loss(place, at, None, How.WENT_BACK)
    return Loss(place, at, held.begin, How.DELETED) if at < held.begin else None


def lost_with(topics: Collection[str], positions: Mapping[Place, int]) -> list[Loss]:
    """The losses in topics that were recreated after they had been read up to ``positions``."""
    return [Loss(place, at, None, How.MADE_ANEW) for place, at in sorted(positions.items()) if place[0] in topics]


def loss_words(losses: Sequence[Loss]) -> str:
    """All losses as a sentence without its final point."""
    told = [str(loss) for loss in losses[:MOST_TOLD]]
    if len(losses) > MOST_TOLD:
        told.append(f"and {len(losses) - MOST_TOLD} more partitions")
    return "; ".join(told)


def incomplete(planned: Mapping[Place, tuple[int, int]], readings: Iterable[Reading]) -> list[Place]:
    """The partitions of a batch with fewer records read than planned (begin, end)."""
    read: dict[Place, int] = {}
    for one in readings:
        count = one.end - one.begin - sum(end - begin for begin, end in one.gaps)
        read[one.place] = read.get(one.place, 0) + count
    return sorted(place for place, (begin, end) in planned.items() if read.get(place, 0) < end - begin)


def lost_in_batch(
    planned: Mapping[Place, tuple[int, int]], readings: Sequence[Reading], begins: Mapping[Place, int]
) -> list[Loss]:
    """The planned offsets that Kafka deleted before they were read; ``begins`` are Kafka's first offsets afterwards.

    A consumer that reads a deleted offset continues at the first existing one. Such a jump begins with the lost offsets
    and ends at ``begins`` or beyond.
    """
    losses = []
    for place, (begin, end) in sorted(planned.items()):
        held = begins.get(place, begin)
        if held <= begin:
            continue
        at = begin
        for one in sorted((r for r in readings if r.place == place), key=lambda r: r.begin):
            if at < one.begin and at < held:
                losses.append(Loss(place, at, min(one.begin, held), How.DELETED))
            jump = next((gap for gap in one.gaps if gap[0] < held <= gap[1]), None)
            if jump is not None:
                losses.append(Loss(place, jump[0], held, How.DELETED))
            at = max(at, one.end)
        if at < min(end, held):
            losses.append(Loss(place, at, min(end, held), How.DELETED))
    return losses
