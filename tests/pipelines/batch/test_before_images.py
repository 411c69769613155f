"""What ``before`` of updates and the order of deletes make of the rows: REPLICA IDENTITY FULL, gaps, late changes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.table import Table
from sources.changes import RECORD_SCHEMA
from tests.support.local_batches import pipeline_tables, run_batches

HIDDEN = "__debezium_unavailable_value"
Image = Mapping[str, Any] | None
Event = tuple[str, Image, Image]
SUMMED = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}


def table_after(
    directory: Path,
    events: Sequence[Event],
    sizes: Sequence[int],
    types: Mapping[str, str],
    options: Mapping[str, str],
    **rule: object,
) -> Table:
    """The table after these events with message key ``id``, in batches of these sizes."""
    source = {"db": "shop", "schema": "public", "table": "t"}
    rows = []
    for offset, (op, before, after) in enumerate(events):
        image = after if after is not None else before
        assert image is not None
        value = json.dumps({"before": before, "after": after, "source": source, "op": op}).encode()
        key = json.dumps({"id": image["id"]}).encode()
        place = {"topic": "shop.public.t", "partition": 0, "offset": offset, "timestamp": 0, "headers": None}
        rows.append({**place, "key": key, "value": value})
    batch = pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    rules: list[dict[str, object]] = [{"match": {"table": "t"}, "into": "lake.t", "columns": {"types": types}, **rule}]
    tables = pipeline_tables(directory, rules, **options)
    run_batches(tables, [batch.slice(at, size) for at, size in zip(starts, sizes, strict=True)], directory)
    return Table.open(f"{tables.config.catalog.warehouse}/lake.db/t")


def rows_after(*arguments: Any, **rule: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table_after(*arguments, **rule).to_arrow().to_pylist()
    return rows


@pytest.mark.parametrize("sizes", [[1, 1], [2]])
def test_an_unsent_value_of_a_full_image_stays_under_producer_input(tmp_path: Path, sizes: list[int]) -> None:
    old, new = {"id": 1, "b": "BIG", "n": 1}, {"id": 1, "b": HIDDEN, "n": 2}
    types = {"b": "STRING", "n": "INT"}

    table = table_after(tmp_path, [("c", None, old), ("u", old, new)], sizes, types, {"changelog-producer": "input"})

    assert table.to_arrow().to_pylist() == [{"id": 1, "b": "BIG", "n": 2}]
    assert [b for _, rows in table.changes() for b in rows.column("b").to_pylist()] == ["BIG"] * 3


@pytest.mark.slow
@pytest.mark.parametrize("partition_by", [[], ["r"]])
@pytest.mark.parametrize("sizes", [[1, 1], [2]])
@pytest.mark.parametrize("producer", ["none", "lookup", "input"])
def test_a_row_that_moves_inside_its_message_key_keeps_its_unsent_values(
    tmp_path: Path, sizes: list[int], producer: str, partition_by: list[str]
) -> None:
    old, new = {"id": 1, "r": "a", "body": "BIG"}, {"id": 1, "r": "b", "body": HIDDEN}
    types = {"r": "STRING", "body": "STRING"}
    rule: dict[str, Any] = {"primary_key": ["id", "r"]} | ({"partition_by": partition_by} if partition_by else {})

    events = [("c", None, old), ("u", old, new)]
    rows = rows_after(tmp_path, events, sizes, types, {"changelog-producer": producer}, **rule)

    assert rows == [{"id": 1, "r": "b", "body": "BIG"}]


@pytest.mark.parametrize("hidden", [HIDDEN, [HIDDEN]])
@pytest.mark.parametrize("sizes", [[1, 1], [2]])
@pytest.mark.parametrize("producer", ["none", "input"])
def test_an_unsent_value_is_neither_retracted_nor_added(
    tmp_path: Path, sizes: list[int], producer: str, hidden: object
) -> None:
    old, new = {"id": 1, "tags": ["a", "b"], "n": 1}, {"id": 1, "tags": hidden, "n": 5}
    types = {"tags": "ARRAY<STRING>", "n": "INT"}
    options = {**SUMMED, "changelog-producer": producer, "fields.tags.aggregate-function": "collect"}

    rows = rows_after(tmp_path, [("c", None, old), ("u", old, new)], sizes, types, options)

    assert rows == [{"id": 1, "tags": ["a", "b"], "n": 5}]


@pytest.mark.parametrize("sizes", [[1, 1], [2]])
@pytest.mark.parametrize("producer", ["none", "input"])
def test_an_unsent_value_is_not_counted_again_where_retracts_are_ignored(
    tmp_path: Path, sizes: list[int], producer: str
) -> None:
    old, new = {"id": 1, "b": "BIG", "n": 1}, {"id": 1, "b": HIDDEN, "n": 2}
    listed = {"fields.b.aggregate-function": "listagg", "fields.b.ignore-retract": "true"}
    options = {**SUMMED, **listed, "changelog-producer": producer}

    rows = rows_after(tmp_path, [("c", None, old), ("u", old, new)], sizes, {"b": "STRING", "n": "INT"}, options)

    assert rows == [{"id": 1, "b": "BIG", "n": 2}]


@pytest.mark.slow
@pytest.mark.parametrize("producer", ["none", "lookup", "input", "full-compaction"])
def test_an_update_with_its_old_row_is_summed_once(tmp_path: Path, producer: str) -> None:
    ten, twelve = {"id": 1, "n": 10}, {"id": 1, "n": 12}
    events = [("c", None, ten), ("u", ten, twelve), ("d", twelve, None)]
    options = {**SUMMED, "changelog-producer": producer}

    after_update = rows_after(tmp_path / "2", events[:2], [1, 1], {"n": "INT"}, options)
    after_delete = rows_after(tmp_path / "3", events, [1, 1, 1], {"n": "INT"}, options)

    assert after_update == [{"id": 1, "n": 12}]
    assert after_delete == [{"id": 1, "n": 0}]


@pytest.mark.parametrize(
    "options",
    [
        {"fields.m.aggregate-function": "max"},
        {"ignore-delete": "true"},
        {"rowkind.field": "k", "fields.k.ignore-retract": "true"},
    ],
)
def test_updates_are_added_where_the_old_row_cannot_be_taken_back(tmp_path: Path, options: dict[str, str]) -> None:
    old, new = {"id": 1, "n": 10, "m": 5, "k": "+I"}, {"id": 1, "n": 12, "m": 4, "k": "+U"}
    types = {"n": "INT", "m": "INT", "k": "STRING"}

    rows = rows_after(tmp_path, [("c", None, old), ("u", old, new)], [1, 1], types, {**SUMMED, **options})

    assert rows[0]["n"] == 22


@pytest.mark.parametrize("sizes", [[1, 1, 1], [1, 2], [2, 1], [3]])
@pytest.mark.parametrize(
    ("newest", "late", "order"), [(10, 5, "ascending"), (10, None, "ascending"), (5, 10, "descending")]
)
def test_a_delete_after_a_late_update_deletes_the_row_that_won(
    tmp_path: Path, sizes: list[int], newest: int, late: int | None, order: str
) -> None:
    events: list[Event] = [
        ("c", None, {"id": 1, "v": newest}),
        ("u", None, {"id": 1, "v": late}),
        ("d", {"id": 1, "v": 0}, None),
    ]

    options = {"sequence.field": "v", "sequence.field.sort-order": order}
    rows = rows_after(tmp_path, events, sizes, {"v": "INT"}, options)

    assert rows == []


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[1, 1, 1], [1, 2], [3]])
def test_a_delete_takes_all_sequence_columns_of_one_row(tmp_path: Path, sizes: list[int]) -> None:
    """A row of (9, 1) is older than one of (10, 0), and a later row of (10, 1) newer than the delete."""
    events: list[Event] = [
        ("c", None, {"id": 1, "v": 10, "w": 0}),
        ("u", None, {"id": 1, "v": 9, "w": 1}),
        ("d", {"id": 1, "v": 0, "w": 0}, None),
        ("c", None, {"id": 1, "v": 10, "w": 1}),
    ]
    types, options = {"v": "INT", "w": "INT"}, {"sequence.field": "v,w"}

    assert rows_after(tmp_path / "3", events[:3], sizes, types, options) == []
    assert rows_after(tmp_path / "4", events, [*sizes, 1], types, options) == [{"id": 1, "v": 10, "w": 1}]
