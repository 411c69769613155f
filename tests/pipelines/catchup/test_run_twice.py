"""A pipeline that runs in two processes, each with a checkpoint of its own: no record counts twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinks.commit.table_sink import RunTwice
from tests.support import paused_pipeline
from tests.support.item_batches import event, records
from tests.support.paused_pipeline import PausedPipeline

COUNT = 60
RECORDS = records(*(event("c", n % 5, {"id": n % 5, "amount": 1}, table="sums") for n in range(COUNT)))
SUMS = {
    "match": {"table": "sums"},
    "into": "lake.sums",
    "options": {"merge-engine": "aggregation", "fields.default-aggregate-function": "sum"},
}


def _process(root: Path, name: str) -> PausedPipeline:
    catalog = {"warehouse": str(root / "warehouse")}
    return PausedPipeline(root / name, RECORDS, [SUMS], catalog=catalog)


@pytest.mark.slow
def test_a_second_process_ends_the_first_and_no_record_counts_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _process(tmp_path, "one")
    first.run(1)
    monkeypatch.setattr(paused_pipeline, "USER", "tidemark-shop-copy")
    second = _process(tmp_path, "two")
    second.run(2)

    with pytest.raises(RunTwice, match="two processes run the pipeline"):
        first.run()
    assert not first.behind  # a table that is paused would be caught up from where this process had left it
    assert sum(row["amount"] for row in second.rows("lake.sums").values()) == 20

    monkeypatch.undo()
    again = _process(tmp_path, "one")
    again.run()
    with pytest.raises(RunTwice):
        second.run()
    assert {key: row["amount"] for key, row in again.rows("lake.sums").items()} == dict.fromkeys(range(5), COUNT // 5)
