"""What Spark says of closed batches, and when it is asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pipelines.spark.stream_progress import LOOK_S, ClosedBatches, closed_batch_ends
from sources.positions import Positions


class Query:
    """A query whose last progress is scripted; counts how often it was asked."""

    def __init__(self) -> None:
        self.asked_count = 0
        self.progress: Any = None
        self._jsq = SimpleNamespace(lastProgress=self._last_progress)

    def closes(self, batch_id: int, end_offset: str) -> None:
        source = SimpleNamespace(endOffset=lambda: end_offset)
        self.progress = SimpleNamespace(batchId=lambda: batch_id, sources=lambda: [source])

    def _last_progress(self) -> Any:
        self.asked_count += 1
        return self.progress


def test_the_end_of_a_batch_is_told_once_its_rows_are_in_the_tables() -> None:
    query, told, now_s = Query(), list[Positions](), [100.0]
    batches = ClosedBatches(told.append, lambda: now_s[0])
    query.closes(0, '{"t": {"0": 8}}')
    batches.poll(query)  # type: ignore[arg-type]
    assert (told, query.asked_count) == ([], 0)

    batches.appended_batch = 0
    query.closes(1, '{"t": {"0": 9}}')
    batches.poll(query)  # type: ignore[arg-type]
    assert told == []

    batches.appended_batch = 1
    batches.poll(query)  # type: ignore[arg-type]
    assert (told, query.asked_count) == ([], 1), "Spark is not asked so soon again"
    now_s[0] += LOOK_S
    batches.poll(query)  # type: ignore[arg-type]
    now_s[0] += LOOK_S
    batches.poll(query)  # type: ignore[arg-type]
    assert (told, query.asked_count) == ([{("t", 0): 9}], 2)


def test_offsets_of_another_form_tell_nothing() -> None:
    query = Query()
    for offset in ("7", "{", '{"files": 3}'):
        query.closes(0, offset)
        assert closed_batch_ends(query) is None  # type: ignore[arg-type]
