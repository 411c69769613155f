"""Records that nobody can read, and so name no source table, while tables of their topic are behind the stream."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.bad_records.dead_letters import DeadLetters
from pipelines.tables.table_failure import TableFailure, TooManyBadRecords
from tests.support.item_batches import event, records
from tests.support.paused_pipeline import PausedPipeline

ITEMS = {"match": {"table": "items"}, "into": "lake.items"}


def with_unreadable(*offsets: int, count: int = 40) -> pa.RecordBatch:
    """Inserts of rows, with some records that are no JSON between them."""
    rows = records(*(event("c", n, {"id": n}) for n in range(count))).to_pylist()
    for offset in offsets:
        rows[offset]["value"] = b"{broken"
    return pa.RecordBatch.from_pylist(rows, schema=records(event("c", 0, {"id": 0})).schema)


def put_aside(pipeline: PausedPipeline) -> list[int]:
    """The offsets of all records in the quarantine."""
    return sorted(line.offset for line in DeadLetters(pipeline.config).records())


def rows(pipeline: PausedPipeline, *missing: int, count: int = 40) -> bool:
    return pipeline.rows("lake.items").keys() == {*range(count)} - {*missing}


@pytest.mark.slow
def test_they_wait_for_the_only_table_of_their_topic(tmp_path: Path) -> None:
    pipeline = PausedPipeline(tmp_path, with_unreadable(3, 15, 33), [ITEMS], has_quarantine=True)
    pipeline.run(1)
    pipeline.pause("lake.items")
    pipeline.run()
    assert put_aside(pipeline) == [3]
    assert sum(report.counts.tables_behind for report in pipeline.reports) == 30

    pipeline.caught_up()

    assert put_aside(pipeline) == [3, 15, 33] and rows(pipeline, 3, 15, 33)


@pytest.mark.slow
@pytest.mark.parametrize("begin", ["before the stream", "with it"])
def test_a_table_that_is_filled_from_the_first_record_has_each_once(tmp_path: Path, begin: str) -> None:
    """The stream has put those aside that came after its own first record, for whatever table."""
    source = with_unreadable(3, 15, 33)
    first = PausedPipeline(tmp_path, source, [{**ITEMS, "into": "lake.other"}], has_quarantine=True)
    first.run(2)
    if begin == "before the stream":  # as if it had begun behind them
        shutil.rmtree(first.config.quarantine)
    rules = [{**ITEMS, "backfill": True}]
    pipeline = PausedPipeline(tmp_path, source, rules, has_quarantine=True)
    pipeline.run()
    pipeline.caught_up()

    assert put_aside(pipeline) == [3, 15, 33] and rows(pipeline, 3, 15, 33)


@pytest.mark.slow
def test_too_many_of_them_pause_the_table_and_fill_no_quarantine(tmp_path: Path) -> None:
    unreadable: Sequence[int] = range(12, 18)
    rules = [{**ITEMS, "max_bad_records": 2}]
    source = with_unreadable(*unreadable)
    pipeline = PausedPipeline(tmp_path, source, rules, has_quarantine=True)
    pipeline.run()
    assert "6 bad records" in json.dumps(pipeline.behind) and put_aside(pipeline) == []

    with pytest.raises((TableFailure, TooManyBadRecords)):
        pipeline.caught_up()
    assert put_aside(pipeline) == []

    allowed = PausedPipeline(tmp_path, source, [{**ITEMS, "max_bad_records": 6}], has_quarantine=True)
    allowed.caught_up()
    assert put_aside(allowed) == [*unreadable] and rows(allowed, *unreadable)
