"""What the log says of values that the source did not send: at once, then now and then, however often they come."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict

from sinks.write.unsent import Became, Unsent, unsent_texts

log = logging.getLogger(__name__)

EVERY_MS = 600_000


class UnsentWarnings:
    """Warnings by table; metrics and the summary of a run count all of them."""

    def __init__(self) -> None:
        self._untold: defaultdict[str, Counter[tuple[str, Became]]] = defaultdict(Counter)
        self._next_ms: dict[str, int] = {}

    def note(self, batch_id: int, identifier: str, unsent: Unsent, now_ms: int) -> None:
        """Count what a batch has written for such values; warn where the last warning is a while ago."""
        counts = self._untold[identifier]
        counts.update(unsent)
        if not counts.total() or now_ms < self._next_ms.get(identifier, 0):
            return
        for text in unsent_texts(counts):
            log.warning("batch %d: table %s: %s", batch_id, identifier, text)
        counts.clear()
        self._next_ms[identifier] = now_ms + EVERY_MS
