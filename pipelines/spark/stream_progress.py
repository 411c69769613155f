"""How far a streaming query has read, as Spark tells it: behind markers of transactions too, which are no records."""

from __future__ import annotations

import json

from pyspark.sql.streaming.query import StreamingQuery

from sources.positions import Positions


def closed_batch_ends(query: StreamingQuery) -> tuple[int, Positions] | None:
    """The batch that Spark closed last, and where it ended in its topics; None before the first one."""
    progress = query.lastProgress
    if progress is None or len(progress.sources) != 1:
        return None
    text = progress.sources[0].endOffset
    try:
        nested = json.loads(text) if isinstance(text, str) else {}
        ends = {(topic, int(p)): int(offset) for topic, places in nested.items() for p, offset in places.items()}
    except (ValueError, AttributeError, TypeError):
        return None  # of a source whose offsets have another form
    return progress.batchId, ends
