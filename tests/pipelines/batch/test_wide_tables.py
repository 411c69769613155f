"""What docs/HOWTO.md says of tables that several topics fill, and of sums over rows with another key."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.errors import SchemaChangeRefused
from pipelines.tables.tables import PipelineTables
from sources.changes import RECORD_SCHEMA
from tests.support.local_batches import pipeline_tables, run_batches, shop_config

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


JOINED: dict[str, object] = {
    "match": {"table": ".*"}, "into": "lake.customer", "primary_key": ["id"], "merge_sources": "same_rows",
    "options": {"merge-engine": "partial-update", "ignore-delete": "true"},
}  # fmt: skip
NAMES: dict[str, dict[str, str]] = {
    "replace": {"name": "coalesce(name, '?')"},
    "add": {"named": "name IS NOT NULL", "x": "name || balance"},
}


@pytest.mark.parametrize("hiding", [{}, {"drop": ["secret"]}, {"mask": {"secret": "redact"}}], ids=str)
@pytest.mark.parametrize(
    ("types", "order"),
    [
        ({}, [[0], [1], [2]]),
        ({}, [[1], [0], [2]]),
        ({}, [[1, 2, 0]]),
        ({}, [[3], [1], [0], [2]]),
        ({"id": "BIGINT", "balance": "INT", "name": "STRING"}, [[1], [2], [0]]),
        ({"id": "BIGINT", "balance": "INT", "name": "STRING"}, [[3], [1], [2], [0]]),
    ],
    ids=str,
)
def test_a_source_without_the_column_of_an_expression_leaves_its_value(
    tmp_path: Path, types: dict[str, str], order: list[list[int]], hiding: dict[str, object]
) -> None:
    tables = pipeline_tables(tmp_path, [{**JOINED, "columns": {**NAMES, **hiding, "types": types}}])
    events = [
        change("profile", 1, "c", {"id": 1, "name": "Ann"}),
        change("account", 0, "c", {"id": 1, "balance": 5}),
        change("profile", 2, "c", {"id": 2, "name": None}),
        change("profile", 0, "c", {"id": 1, "note": "without a name"}),
    ]

    run_batches(
        tables,
        [pa.concat_batches([events[n] for n in batch]) for batch in order],
        tmp_path,
        decoder=tables.config.decoder,
    )

    rows = tables.sinks["lake.customer"].table.to_arrow().select(["id", "name", "named", "balance", "x"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [(1, "Ann", True, 5, None), (2, "?", False, None, None)]


@pytest.mark.parametrize("form", ["json", "upsert-json", "maxwell-json"])
def test_rows_of_every_format_show_which_columns_their_source_lacks(tmp_path: Path, form: str) -> None:
    def row_of(table: str, offset: int, row: dict[str, Any], op: str = "insert") -> pa.RecordBatch:
        of_maxwell = {
            "database": "crm",
            "table": table,
            "type": op,
            "ts": 1,
            "primary_key_columns": ["id"],
            "data": row,
        }
        of_maxwell |= {"primary_key": [row["id"]]} | ({"old": {"balance": 4}} if op == "update" else {})
        value = of_maxwell if form == "maxwell-json" else row
        place = {"topic": f"crm.public.{table}", "partition": 0, "offset": offset, "timestamp": 0, "headers": None}
        raw = {"key": json.dumps({"id": row["id"]}).encode(), "value": json.dumps(value).encode()}
        return pa.RecordBatch.from_pylist([{**place, **raw}], schema=RECORD_SCHEMA)

    source = {"files": {"path": str(tmp_path)}, "format": form}
    config = shop_config(tmp_path, [{**JOINED, "columns": NAMES}], {"bucket": "2"}, source=source)
    tables = PipelineTables(config, "tidemark-shop-test")
    batches = [row_of("profile", 0, {"id": 1, "name": "Ann"}), row_of("account", 0, {"id": 1, "balance": 5})]

    run_batches(
        tables,
        [*batches, row_of("account", 1, {"id": 1, "balance": 6}, "update")],
        tmp_path,
        decoder=tables.config.decoder,
    )

    (row,) = tables.sinks["lake.customer"].table.to_arrow().to_pylist()
    assert row == {"id": 1, "name": "Ann", "named": True, "balance": 6, "x": None}


def test_documents_show_which_fields_they_lack(tmp_path: Path) -> None:
    def document(collection: str, offset: int, fields: dict[str, Any]) -> pa.RecordBatch:
        source = {"connector": "mongodb", "db": "crm", "collection": collection, "ts_ms": 1}
        value = {"before": None, "after": json.dumps(fields), "op": "c", "source": source}
        place = {"topic": f"crm.{collection}", "partition": 0, "offset": offset, "timestamp": 0, "headers": None}
        raw = {"key": json.dumps({"id": json.dumps(fields["_id"])}).encode(), "value": json.dumps(value).encode()}
        return pa.RecordBatch.from_pylist([{**place, **raw}], schema=RECORD_SCHEMA)

    tables = pipeline_tables(tmp_path, [{**JOINED, "primary_key": ["_id"], "columns": NAMES}])
    batches = [document("profile", 0, {"_id": 1, "name": "Ann"}), document("account", 0, {"_id": 1, "balance": 5})]

    run_batches(
        tables, [*batches, document("profile", 1, {"_id": 2, "name": None})], tmp_path, decoder=tables.config.decoder
    )

    rows = tables.sinks["lake.customer"].table.to_arrow().select(["_id", "name", "named", "balance"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [(1, "Ann", True, 5), (2, "?", False, None)]


@pytest.mark.parametrize("columns", [NAMES, {"add": NAMES["add"]}, {**NAMES, "drop": ["secret"]}], ids=str)
@pytest.mark.parametrize("first", [None, {"id": 1, "note": "x"}], ids=str)
def test_a_column_of_an_expression_with_only_null_pauses_its_table_until_its_type_is_declared(
    tmp_path: Path, columns: dict[str, object], first: dict[str, Any] | None
) -> None:
    rule = {**JOINED, "columns": columns}
    tables = pipeline_tables(tmp_path, [rule])
    batches = [change("account", 0, "c", {"id": 1, "balance": 5})]
    batches += [] if first is None else [change("profile", 0, "c", first)]
    run_batches(tables, batches, tmp_path, decoder=tables.config.decoder)
    unknown = change("profile", 1, "c", {"id": 2, "name": None})
    with pytest.raises(SchemaChangeRefused, match="column 'name' has only NULL so far"):
        run_batches(tables, [unknown], tmp_path, len(batches), tables.config.decoder)

    tables = pipeline_tables(tmp_path, [{**rule, "columns": {**columns, "types": {"name": "STRING"}}}])
    run_batches(tables, [unknown], tmp_path, len(batches), tables.config.decoder)

    rows = tables.sinks["lake.customer"].table.to_arrow().select(["id", "name", "named"]).to_pylist()
    name = "?" if "replace" in columns else None
    assert [tuple(row.values()) for row in rows] == [(1, None, None), (2, name, False)]


def test_an_embedded_schema_shows_which_columns_a_source_lacks(tmp_path: Path) -> None:
    def row_of(table: str, offset: int, row: dict[str, Any], *columns: tuple[str, str]) -> pa.RecordBatch:
        fields = [{"field": name, "type": t, "optional": name != "id"} for name, t in (("id", "int64"), *columns)]
        parts = [{"type": "struct", "optional": True, "fields": fields, "field": side} for side in ("before", "after")]
        parts.append({"type": "string", "optional": False, "field": "op"})
        envelope = {"type": "struct", "optional": False, "name": "crm.Envelope", "fields": parts}
        (plain,) = change(table, offset, "c", row).to_pylist()
        value = json.dumps({"schema": envelope, "payload": json.loads(plain["value"])}).encode()
        return pa.RecordBatch.from_pylist([{**plain, "value": value}], schema=RECORD_SCHEMA)

    tables = pipeline_tables(tmp_path, [{**JOINED, "columns": NAMES}])
    batches = [
        row_of("profile", n, {"id": n, "name": name}, ("name", "string")) for n, name in enumerate(("Ann", None))
    ]
    batches += [row_of("account", n, {"id": n, "balance": 5}, ("balance", "int32")) for n in (0, 1)]

    run_batches(tables, batches, tmp_path, decoder=tables.config.decoder)

    rows = tables.sinks["lake.customer"].table.to_arrow().select(["name", "named", "balance"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [("Ann", True, 5), ("?", False, 5)]


def test_a_column_that_no_source_has_is_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tables = pipeline_tables(tmp_path, [{**JOINED, "columns": {"add": {"named": "nmae IS NOT NULL"}}}])
    profiles = [change("profile", n, "c", {"id": n, "name": "Ann"}) for n in (0, 1)]

    with caplog.at_level(logging.WARNING):
        run_batches(
            tables,
            [*profiles, change("account", 0, "c", {"id": 1, "balance": 5})],
            tmp_path,
            decoder=tables.config.decoder,
        )

    (told,) = [record.getMessage() for record in caplog.records if "nmae" in record.getMessage()]
    assert told == (
        "table lake.customer: columns: named: nmae IS NOT NULL: no record of its sources so far has column 'nmae' (did "
        "you mean 'name'?). Until a source has it, the expression gives no values. If the name is wrong, correct it in "
        "the rule"
    )
    assert "named" not in tables.sinks["lake.customer"].table.schema.column_names


def test_a_source_without_the_column_counts_as_null_where_each_record_is_a_whole_row(tmp_path: Path) -> None:
    rule = {**JOINED, "options": {}, "columns": {"add": {"named": "name IS NOT NULL"}}}
    tables = pipeline_tables(tmp_path, [rule])
    batches = [change("profile", 0, "c", {"id": 1, "name": "Ann"}), change("account", 0, "c", {"id": 1, "balance": 5})]

    run_batches(tables, batches, tmp_path, decoder=tables.config.decoder)

    (row,) = tables.sinks["lake.customer"].table.to_arrow().to_pylist()
    assert row == {"id": 1, "name": None, "named": False, "balance": 5}


def test_a_sum_lacks_the_key_of_its_source_when_the_connector_leaves_it_out_of_the_rows(tmp_path: Path) -> None:
    options = {"merge-engine": "aggregation", "fields.amount.aggregate-function": "sum"}
    rule = {"match": {"table": ".*"}, "into": "lake.sales", "primary_key": ["product"], "before": "full"}
    tables = pipeline_tables(tmp_path, [{**rule, "options": options}])
    sales = [{"product": "a", "amount": 5}, {"product": "a", "amount": 7}, {"product": "b", "amount": 1}]
    batches = [change("sales", n, "c", row, key={"id": n}) for n, row in enumerate(sales)]

    run_batches(tables, [*batches, change("sales", 3, "d", sales[1], key={"id": 1})], tmp_path)

    rows = tables.sinks["lake.sales"].table.to_arrow().to_pylist()
    assert rows == [{"product": "a", "amount": 5}, {"product": "b", "amount": 1}]
