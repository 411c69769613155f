"""What docs/HOWTO.md says of tables that several topics fill, and of sums over rows with another key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sources.changes import RECORD_SCHEMA
from tests.support.local_batches import pipeline_tables, run_batches

TYPES = {"id": "BIGINT", "balance": "INT", "account_at": "BIGINT", "name": "STRING", "profile_at": "BIGINT"}
OPTIONS = {
    "merge-engine": "partial-update",
    "fields.account_at.sequence-group": "balance",
    "fields.profile_at.sequence-group": "name",
}
Rows = dict[int, tuple[Any, Any]]


def change(table: str, offset: int, op: str, row: dict[str, Any], key: object = None) -> pa.RecordBatch:
    images = {"before": row if op == "d" else None, "after": None if op == "d" else row}
    value = {**images, "op": op, "source": {"db": "crm", "schema": "public", "table": table}}
    place = {"topic": f"crm.public.{table}", "partition": 0, "offset": offset, "timestamp": 0, "headers": None}
    raw = {"key": json.dumps(key or {"id": row["id"]}).encode(), "value": json.dumps(value).encode()}
    return pa.RecordBatch.from_pylist([{**place, **raw}], schema=RECORD_SCHEMA)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({}, {1: (5, None), 2: (None, "b"), 3: (None, None)}),
        ({"partial-update.remove-record-on-sequence-group": "account_at"}, {1: (5, None)}),
        ({"ignore-delete": "true"}, {1: (5, "b"), 2: (5, "b"), 3: (5, "b")}),
    ],
)
def test_a_delete_in_one_topic_takes_the_values_of_its_own_group(
    tmp_path: Path, options: dict[str, str], left: Rows
) -> None:
    rule = {"match": {"table": ".*"}, "into": "lake.customer", "primary_key": ["id"], "merge_sources": "same_rows"}
    tables = pipeline_tables(tmp_path, [{**rule, "columns": {"types": TYPES}, "options": {**OPTIONS, **options}}])
    account = [{"id": n, "balance": 5, "account_at": 1} for n in (1, 2, 3)]
    profile = [{"id": n, "name": "b", "profile_at": 1} for n in (1, 2, 3)]
    batches = [change("account", n, "c", row) for n, row in enumerate(account)]
    batches += [change("profile", n, "c", row) for n, row in enumerate(profile)]
    batches += [change("profile", 3, "d", profile[0]), change("account", 3, "d", account[1])]
    batches += [change("profile", 4, "d", profile[2]), change("account", 4, "d", account[2])]

    run_batches(tables, batches, tmp_path)

    rows = tables.sinks["lake.customer"].table.to_arrow().to_pylist()
    assert {row["id"]: (row["balance"], row["name"]) for row in rows} == left


def test_a_sum_lacks_the_key_of_its_source_when_the_connector_leaves_it_out_of_the_rows(tmp_path: Path) -> None:
    options = {"merge-engine": "aggregation", "fields.amount.aggregate-function": "sum"}
    rule = {"match": {"table": ".*"}, "into": "lake.sales", "primary_key": ["product"], "before": "full"}
    tables = pipeline_tables(tmp_path, [{**rule, "options": options}])
    sales = [{"product": "a", "amount": 5}, {"product": "a", "amount": 7}, {"product": "b", "amount": 1}]
    batches = [change("sales", n, "c", row, key={"id": n}) for n, row in enumerate(sales)]

    run_batches(tables, [*batches, change("sales", 3, "d", sales[1], key={"id": 1})], tmp_path)

    rows = tables.sinks["lake.sales"].table.to_arrow().to_pylist()
    assert rows == [{"product": "a", "amount": 5}, {"product": "b", "amount": 1}]
