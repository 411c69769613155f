"""Pipelines into tables whose partition column is not part of the key: rows move, whatever happens to the tasks."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_batches import processed, task_settings
from tests.support.moving_rows import Event, moving_tables, records, rows_of, stored
from tests.support.table_driver import TableDriver

HIDDEN = "__debezium_unavailable_value"


class Source:
    """A source table that changes at random; deletes tell the key alone, updates may leave a value out."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self.rows: dict[int, dict[str, Any]] = {}

    def events(self, count: int) -> list[Event]:
        return [self._event() for _ in range(count)]

    def _event(self) -> Event:
        draw = self._draw
        key = draw.randrange(40)
        new = {"id": key, "dt": draw.choice("abc"), "body": str(draw.randrange(1000))}
        old = self.rows.get(key)
        if old is None:
            self.rows[key] = new
            return ("c", None, new)
        if draw.random() < 0.3:
            del self.rows[key]
            return ("d", {"id": key, "dt": None, "body": None}, None)
        if draw.random() < 0.3:
            self.rows[key] = {**new, "body": old["body"]}
            return ("u", None, {**new, "body": HIDDEN})
        self.rows[key] = new
        return ("u", None, new)


@pytest.mark.slow
@pytest.mark.parametrize("is_one_job", [False, True])
@pytest.mark.parametrize("producer", ["lookup", "input"])
def test_rows_follow_their_source_over_restarts_and_changed_slots(
    tmp_path: Path, producer: str, is_one_job: bool
) -> None:
    source = Source(7)
    options = {"changelog-producer": producer, "dynamic-bucket.target-row-num": "6"}
    tables = moving_tables(tmp_path, **options)
    offset = 0
    for batch_id in range(6):
        events = source.events(25)
        settings = task_settings(tmp_path, slots=1 + batch_id % 3)
        if batch_id == 3:  # another process, on another machine
            shutil.rmtree(tmp_path / "lookup")
            tables = moving_tables(tmp_path, **options)
        processed(tables, [records(events, offset)], settings, batch_id, is_one_job=is_one_job)
        offset += len(events)
        assert rows_of(stored(tmp_path)) == [source.rows[key] for key in sorted(source.rows)], f"batch {batch_id}"


@pytest.mark.slow
def test_a_batch_that_runs_again_changes_nothing(tmp_path: Path) -> None:
    tables = moving_tables(tmp_path)
    first = records([("c", None, {"id": k, "dt": "a", "body": "x"}) for k in range(9)])
    second = records([("u", None, {"id": k, "dt": "b", "body": "y"}) for k in range(9)], 9)
    processed(tables, [first, second], task_settings(tmp_path))

    processed(moving_tables(tmp_path), [second], task_settings(tmp_path), 1)

    assert rows_of(stored(tmp_path)) == [{"id": k, "dt": "b", "body": "y"} for k in range(9)]


@pytest.mark.slow
def test_a_commit_of_somebody_else_is_caught_up_with(tmp_path: Path) -> None:
    tables = moving_tables(tmp_path, **{"changelog-producer": "lookup"})
    settings = task_settings(tmp_path)
    processed(tables, [records([("c", None, {"id": k, "dt": "a", "body": "x"}) for k in range(9)])], settings)
    other = TableDriver(stored(tmp_path), tmp_path / "other", "other")
    other.commit([["+U", 1, "b", "theirs"], ["-D", 2, "c", "theirs"], ["+I", 20, "c", "theirs"]])

    moved = [("u", None, {"id": k, "dt": "c", "body": "y"}) for k in (1, 2, 3)]
    processed(tables, [records([*moved, ("u", None, {"id": 20, "dt": "a", "body": HIDDEN})], 9)], settings, 1)

    expected = {k: {"id": k, "dt": "a", "body": "x"} for k in range(9)}
    expected |= {k: {"id": k, "dt": "c", "body": "y"} for k in (1, 2, 3)}
    expected[20] = {"id": 20, "dt": "a", "body": "theirs"}
    assert rows_of(stored(tmp_path)) == list(expected.values())


@pytest.mark.slow
@pytest.mark.parametrize("is_one_job", [False, True])
def test_a_table_laid_out_by_another_number_of_lanes_goes_on(tmp_path: Path, is_one_job: bool) -> None:
    tables = moving_tables(tmp_path, **{"dynamic-bucket.target-row-num": "4"})
    settings = task_settings(tmp_path)
    processed(tables, [records([("c", None, {"id": k, "dt": "a", "body": "x"}) for k in range(30)])], settings)
    table = stored(tmp_path)
    options = replace(table.options, dynamic_bucket_initial_buckets=3)
    other = TableDriver(replace(table, context=replace(table.context, options=options)), tmp_path / "other", "other")
    other.commit([["+I", k, "b", "theirs"] for k in range(100, 130)])

    moved = [("u", None, {"id": k, "dt": "c", "body": "y"}) for k in (*range(30), *range(100, 130))]
    processed(tables, [records(moved, 30)], settings, 1, is_one_job=is_one_job)

    assert [row["dt"] for row in rows_of(stored(tmp_path))] == ["c"] * 60


def test_a_move_is_a_delete_and_an_insert_of_one_snapshot(tmp_path: Path) -> None:
    tables = moving_tables(tmp_path, **{"changelog-producer": "lookup"})
    old, new = {"id": 1, "dt": "a", "body": "x"}, {"id": 1, "dt": "b", "body": HIDDEN}

    processed(tables, [records([("c", None, old)]), records([("u", None, new)], 1)], task_settings(tmp_path))

    *_, (_, changes) = stored(tmp_path).changes()
    by_kind = sorted(changes.select(["_VALUE_KIND", "dt", "body"]).to_pylist(), key=lambda row: -row["_VALUE_KIND"])
    assert [(row["_VALUE_KIND"], row["dt"], row["body"]) for row in by_kind] == [(3, "a", "x"), (0, "b", "x")]
