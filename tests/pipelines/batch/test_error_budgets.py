"""A table with more bad records in a batch than its rule allows stops at that batch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_table.storage.file_io import LocalFileIO
from pipelines.config.error_budget import ErrorBudget
from pipelines.tables.table_failure import TooManyBadRecords
from pipelines.tables.tables import PipelineTables
from sinks.quarantine import Quarantine
from tests.support.item_batches import event, records
from tests.support.local_batches import pipeline_tables, processed, task_settings

either_order = pytest.mark.parametrize("is_one_job", [False, True], ids=["two jobs", "one job"])
GARBAGE = ({"id": 9}, b"no JSON")


def _tables(directory: Path, **limits: object) -> PipelineTables:
    rules: list[dict[str, object]] = [
        {"match": {"table": "items"}, "into": "lake.items", **limits},
        {"match": {"table": "others"}, "into": "lake.others"},
    ]
    return pipeline_tables(directory, rules)


def _run(
    tables: PipelineTables, directory: Path, *batches: pa.RecordBatch, first: int = 0, is_one_job: bool = False
) -> None:
    quarantine = Quarantine(LocalFileIO(), str(directory / "quarantine"))
    processed(tables, batches, task_settings(directory, quarantine), first, is_one_job=is_one_job)


def _quarantined(directory: Path) -> int:
    return sum(len(file.read_text().splitlines()) for file in (directory / "quarantine").rglob("*.jsonl"))


def _ids(tables: PipelineTables, table: str = "lake.items") -> list[int]:
    return sorted(row["id"] for row in tables.sinks[table].table.to_arrow().to_pylist())


def _good(*keys: int) -> list[tuple[object, object]]:
    return [event("c", key, {"id": key}) for key in keys]


WIDE = event("c", 7, {"id": "no number"})
"""A record that names its table and does not fit it."""


@either_order
def test_a_batch_with_more_bad_records_than_allowed_leaves_nothing(tmp_path: Path, is_one_job: bool) -> None:
    tables = _tables(tmp_path, max_bad_records=1)
    first, second = records(*_good(1, 2), GARBAGE), records(*_good(3), WIDE, GARBAGE, first_offset=3)

    with pytest.raises(TooManyBadRecords) as stopped:
        _run(tables, tmp_path, first, second, is_one_job=is_one_job)

    assert stopped.value.table == "lake.items"
    assert "2 bad records among 3 of the table, and max_bad_records allows 1" in str(stopped.value)
    assert "topic shop.public.items partition 0 offset" in str(stopped.value)
    assert _ids(tables) == [1, 2]
    assert _quarantined(tmp_path) == 1


@either_order
def test_after_the_limit_is_raised_the_batch_comes_in_once(tmp_path: Path, is_one_job: bool) -> None:
    tables = _tables(tmp_path, max_bad_records=0)
    batch = records(*_good(1, 2), GARBAGE)
    with pytest.raises(TooManyBadRecords):
        _run(tables, tmp_path, batch, is_one_job=is_one_job)

    raised = PipelineTables(_tables(tmp_path, max_bad_records=1).config, tables.commit_user)
    _run(raised, tmp_path, batch, is_one_job=is_one_job)
    again = PipelineTables(raised.config, tables.commit_user)
    _run(again, tmp_path, batch, is_one_job=is_one_job)

    assert _ids(raised) == [1, 2]
    assert len(list(raised.sinks["lake.items"].table.snapshots.newest_first())) == 1
    assert _quarantined(tmp_path) == 1


@pytest.mark.parametrize(("limit", "stops"), [("49%", True), ("50%", False), ("100%", False)])
def test_a_share_counts_the_records_of_the_table_alone(tmp_path: Path, limit: str, stops: bool) -> None:
    tables = _tables(tmp_path, max_bad_records=limit)
    others = [event("c", key, {"id": key}, table="others") for key in range(20)]
    _run(tables, tmp_path, records(*_good(1), *others[:1]))
    batch = records(*_good(2), WIDE, *others, first_offset=2)
    try:
        _run(tables, tmp_path, batch, first=1)
    except TooManyBadRecords:
        assert stops
    else:
        assert not stops


@pytest.mark.parametrize("own", [{"max_bad_records": None}, {"max_bad_records": 5}, {}], ids=["null", "5", "none"])
def test_the_word_of_a_rule_wins_over_that_of_the_defaults(tmp_path: Path, own: dict[str, object]) -> None:
    made = _tables(tmp_path, **own)
    defaults = made.config.defaults.model_copy(update={"max_bad_records": ErrorBudget(0, False)})
    tables = PipelineTables(made.config.model_copy(update={"defaults": defaults}), made.commit_user)
    batch = records(*_good(1, 2), GARBAGE, GARBAGE)
    if own:
        _run(tables, tmp_path, batch)
        assert (_ids(tables), _quarantined(tmp_path)) == ([1, 2], 2)
    else:
        with pytest.raises(TooManyBadRecords):
            _run(tables, tmp_path, batch)


def test_bad_records_of_a_table_without_limit_stop_no_other(tmp_path: Path) -> None:
    tables = _tables(tmp_path, max_bad_records=0)
    bad = event("c", 7, {"id": "no number"}, table="others")
    good = event("c", 1, {"id": 1}, table="others")

    _run(tables, tmp_path, records(*_good(1), good), records(*_good(2), bad, first_offset=2))

    assert _ids(tables) == [1, 2]
    assert _quarantined(tmp_path) == 1


def test_a_topic_without_any_readable_record_counts_for_the_table_of_its_name(tmp_path: Path) -> None:
    tables = _tables(tmp_path, max_bad_records="1%")

    with pytest.raises(TooManyBadRecords, match=r"lake\.items: batch 0 has 2 bad records among 2 of the table"):
        _run(tables, tmp_path, records(GARBAGE, GARBAGE))

    assert _quarantined(tmp_path) == 0
