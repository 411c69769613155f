"""Tables ordered by the source: rows that come after newer ones are counted, and crashes change nothing."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.changelog import replay_strictly
from tests.support.local_batches import pipeline_tables, reported_batches
from tests.support.paused_pipeline import Killed, PausedPipeline, killed_at
from tests.support.placed_changes import (
    RULE,
    TOPICS,
    Change,
    batch,
    content,
    drawn_history,
    folded,
    joined,
    postgresql,
    shuffled,
)
from tests.support.source_content import open_table


def late(changes: Sequence[Change]) -> int:
    """How many changes come after a newer one of their key."""
    newest: dict[int, int] = {}
    count = 0
    for change in changes:
        count += change.source["lsn"] < newest.get(change.key, 0)
        newest[change.key] = max(change.source["lsn"], newest.get(change.key, 0))
    return count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"bucket": "1", "changelog-producer": "lookup"}, 1),
        ({"bucket": "2", "changelog-producer": "none", "num-sorted-run.compaction-trigger": "2"}, 7),
    ],
)
def test_rows_that_come_after_newer_ones_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, options: dict[str, str], size: int
) -> None:
    """Each vanishes in one merge. A merge of several batches may meet a row that is newer still."""
    caplog.set_level(logging.INFO)
    r = random.Random(size)
    history = drawn_history(r, 30, postgresql)
    changes = r.sample(history, 30)
    tables = pipeline_tables(tmp_path, [RULE], **options)
    batches = [batch(changes[at : at + size], TOPICS[0], at) for at in range(0, 30, size)]

    _, reports = reported_batches(tables, batches, tmp_path)

    counted = sum(table.late_row_count for report in reports for table in report.tables)
    assert late(changes) > 5
    assert counted == late(changes) if size == 1 else 0 < counted <= late(changes)
    assert content(open_table(tables, "items")) == folded(history)
    told = [r.getMessage() for r in caplog.records if "arrived after newer rows of their keys" in r.getMessage()]
    assert len(told) == 1, "the next line comes ten minutes later"
    assert "table lake.items: " in told[0]


def test_a_table_in_order_of_arrival_has_no_late_rows(tmp_path: Path) -> None:
    changes = drawn_history(random.Random(1), 40, postgresql)
    plain = {name: value for name, value in RULE.items() if name != "order_by"}
    tables = pipeline_tables(tmp_path, [plain], **{"changelog-producer": "lookup"})

    _, reports = reported_batches(tables, [batch(changes[::-1])], tmp_path)

    assert [table.late_row_count for report in reports for table in report.tables] == [0]


@pytest.mark.crash
def test_killed_anywhere_no_older_event_undoes_a_newer_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the stream, and in the slices of a table that is caught up; the checkpoint begins each batch once more."""
    r = random.Random(5)
    changes = drawn_history(r, 24, postgresql)
    source = joined(shuffled(r, changes))
    step, points = 1, 0
    while True:
        root = tmp_path / str(step)
        with killed_at(monkeypatch, step) as was_killed:
            try:
                story(root, source)
            except Killed:
                points += 1
        if not was_killed():
            break
        finished = story(root, source)
        assert finished.behind == {}
        table = finished.table("lake.items")
        assert content(table) == folded(changes), f"crash point {step}"
        told = replay_strictly((rows for _, rows in table.changes()), ["id"])
        assert {key: row["n"] for (key,), row in told.items()} == folded(changes), f"crash point {step}"
        step += 11
    assert points > 2


def story(root: Path, source: pa.RecordBatch) -> PausedPipeline:
    pipeline = PausedPipeline(root, source, [RULE], batch_size=12, slice_size=15)
    if pipeline.stream.next_batch < 2:
        pipeline.run(1)
        pipeline.pause("lake.items")
        pipeline.run(1)
    pipeline.caught_up(batch_between=True)
    pipeline.run()
    pipeline.caught_up()
    return pipeline
