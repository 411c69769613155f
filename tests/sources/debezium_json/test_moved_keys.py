"""Headers of a changed primary key, as the decoder hands them on with the change rows."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.types import parse_type
from sources.change_columns import OTHER_KEY_COLUMN
from sources.changes import RECORD_SCHEMA, Decoded, SourceTable
from sources.debezium_json.decoder import DebeziumJsonDecoder
from sources.decode_target import DecodeTarget, Rejection

SOURCE = SourceTable("shop.public.orders", None, "public", "orders")
COLUMNS = (
    ("region", parse_type("STRING NOT NULL")),
    ("id", parse_type("INT NOT NULL")),
    ("body", parse_type("STRING")),
)
TARGET = DecodeTarget(COLUMNS, ("region", "id"))
HIDDEN = "__debezium_unavailable_value"
OLD, NEW = {"id": 1, "region": "eu"}, {"id": 2, "region": "eu"}


def records(*rows: tuple[dict[str, Any], tuple[str, bytes] | None]) -> pa.RecordBatch:
    """Envelopes, each with the header that follows."""
    return pa.RecordBatch.from_pylist(
        [
            {
                "topic": SOURCE.topic, "partition": 0, "offset": offset, "value": json.dumps(value).encode(),
                "headers": [] if header is None else [{"key": header[0], "value": header[1]}],
            }
            for offset, (value, header) in enumerate(rows)
        ],
        schema=RECORD_SCHEMA,
    )  # fmt: skip


def moved(body: str, old_header: bytes, new_header: bytes) -> pa.RecordBatch:
    """Another row, then what a changed key makes of one row: a delete, and a create under the other key."""
    return records(
        ({"op": "c", "before": None, "after": {**OLD, "id": 9, "body": "x"}}, None),
        ({"op": "d", "before": {**OLD, "body": None}, "after": None}, ("__debezium.newkey", new_header)),
        ({"op": "c", "before": None, "after": {**NEW, "body": body}}, ("__debezium.oldkey", old_header)),
    )


def other_keys(decoded: Decoded) -> list[str | None] | None:
    (change,) = decoded.changes
    names = change.rows.column_names
    return change.rows.column(OTHER_KEY_COLUMN).to_pylist() if OTHER_KEY_COLUMN in names else None


@pytest.mark.parametrize("body", [HIDDEN, "whole"])
def test_the_delete_gets_the_new_key_and_the_moved_row_the_old_one(body: str) -> None:
    batch = moved(body, json.dumps({"schema": {}, "payload": OLD}).encode(), json.dumps(NEW).encode())
    assert other_keys(DebeziumJsonDecoder().decode(batch, {SOURCE: TARGET})) == [None, '["eu", 2]', '["eu", 1]']


def test_headers_that_hold_no_key_of_the_table_leave_the_column_out() -> None:
    for no_json in (b"{not json", b"[" * 100_000):
        batch = moved(HIDDEN, no_json, json.dumps({"id": 2}).encode())
        assert other_keys(DebeziumJsonDecoder().decode(batch, {SOURCE: TARGET})) is None


def test_records_without_a_target_may_have_such_headers() -> None:
    batch = moved(HIDDEN, json.dumps(OLD).encode(), json.dumps(NEW).encode())
    for goal in (None, Rejection("no table")):
        assert DebeziumJsonDecoder().decode(batch, {SOURCE: goal}).changes == ()


@pytest.mark.parametrize("id", [{"scale": 0, "value": "AQ=="}, [1], "AQ==", 1 << 40], ids=str)
def test_a_key_that_the_table_cannot_have_is_no_other_key(id: Any) -> None:
    """Looking it up would fail in the task that writes."""
    batch = moved(HIDDEN, json.dumps({**OLD, "id": id}).encode(), json.dumps(NEW).encode())

    assert other_keys(DebeziumJsonDecoder().decode(batch, {SOURCE: TARGET})) == [None, '["eu", 2]', None]
