"""How far a streaming query has read, as Spark reports it: it counts markers of transactions too."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from sources.positions import Positions

LOOK_S = 1.0
"""How often Spark may be asked how far a query is."""


class ClosedBatches:
    """The ends of batches, found by polling; only of batches in the tables: ``appended_batch`` is the last one."""

    def __init__(self, tell: Callable[[Positions], None], now_s: Callable[[], float] = time.monotonic) -> None:
        """``tell`` gets the end of each batch, after all that the batch has read."""
        self.appended_batch = -1
        """Kept by what runs the batches."""
        self._tell = tell
        self._now_s = now_s
        self._told_batch = -1
        self._asked_s = 0.0

    def poll(self, query: StreamingQuery) -> None:
        """Ask Spark at intervals while there is something to learn."""
        now_s = self._now_s()
        if self._told_batch >= self.appended_batch or now_s - self._asked_s < LOOK_S:
            return
        self._asked_s = now_s
        found = closed_batch_ends(query)
        if found is not None and found[0] <= self.appended_batch:
            self._told_batch, ends = found
            self._tell(ends)


def closed_batch_ends(query: StreamingQuery) -> tuple[int, Positions] | None:
    """The batch that Spark closed last, and where it ended in its topics; None before the first one."""
    # PySpark's own lastProgress walks Java's maps until they throw, and each of these exceptions is compared with a
    # dozen classes by name: up to 0.2 s of the JVM for one look.
    progress: Any = query._jsq.lastProgress()
    if progress is None or len(progress.sources()) != 1:
        return None
    text = progress.sources()[0].endOffset()
    try:
        nested = json.loads(text) if isinstance(text, str) else {}
        ends = {(topic, int(p)): int(offset) for topic, places in nested.items() for p, offset in places.items()}
    except (ValueError, AttributeError, TypeError):
        return None  # from a source with offsets of another form
    return int(progress.batchId()), ends
