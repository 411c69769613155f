"""How many of the newest records of each table, or topic, were bad, over the batches of this process."""

from __future__ import annotations

from collections import defaultdict

from pipelines.config.error_budget import NEWEST, Share


class RecordShares:
    """The newest batches of each table that together have enough records to judge it by.

    A trickle of bad records is judged as one batch of as many would be. A process begins without knowledge of earlier
    ones: what they put aside does not count.
    """

    def __init__(self) -> None:
        self._batches: defaultdict[str, dict[int, Share]] = defaultdict(dict)

    def note(self, name: str, batch_id: int, share: Share) -> Share:
        """The newest records with those of a batch; one that is planned again counts once."""
        batches = self._batches[name]
        batches[batch_id] = share
        while len(batches) > 1 and _sum(batches).all - batches[min(batches)].all >= NEWEST:
            del batches[min(batches)]
        return _sum(batches)

    def forget(self, name: str) -> None:
        """The table is paused: once it goes on, it is judged by what comes then."""
        self._batches.pop(name, None)


def _sum(batches: dict[int, Share]) -> Share:
    return sum(batches.values(), Share())
