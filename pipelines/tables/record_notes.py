"""What the log says of records which give a table less than a row: at first sight, and not for each of them again.

Values that the source did not send are told at once, then now and then. Control records are told once per topic.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable

from sinks.write.unsent import Became, Unsent, unsent_texts
from sources.changes import ControlRecord

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


class ControlNotes:
    """Lines on control records, one for each kind in each topic: whoever takes them for rows looks there."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def note(self, first: Iterable[ControlRecord]) -> None:
        """Tell of the kinds that are new, each with the place of a record."""
        for record in first:
            if (record.topic, record.kind) in self._told:
                continue
            self._told.add((record.topic, record.kind))
            log.info(
                "%s partition %d offset %d: a %s, which is no row of a table: Tidemark skips it and all others of the"
                " topic, and counts them as control records",
                record.topic,
                record.partition,
                record.offset,
                record.kind,
            )
