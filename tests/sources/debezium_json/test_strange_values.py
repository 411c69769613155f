"""Quarantine says what a value looks like that is no event, and what to do about it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipelines.batch.decode_report import kind_of_reason
from sources.changes import SourceTable
from sources.debezium_json.decoder import DebeziumJsonDecoder
from tests.support.envelope_records import SOURCE, TOPIC, TWO_COLUMNS, Json, event, records

CANAL = {"data": [{"id": "1"}], "database": "a", "table": "t", "isDdl": False, "type": "INSERT", "ts": 1}
MAXWELL = {"database": "a", "table": "t", "type": "insert", "ts": 1, "xid": 3, "data": {"id": 1}}
MONGODB = {"version": "3.2.1.Final", "connector": "mongodb", "db": "inv", "collection": "cust"}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"", ["empty", "null for a tombstone"]),
        (b" \n", ["empty"]),
        ("{}".encode("utf-16"), ["UTF-16"]),
        (b"\x00\x00\x00\x00\x07\x02ab", ["Avro", "schema 7", "JsonConverter"]),
        (b"\x00\x00\x00\x00\x07\x02\xff", ["Avro", "schema 7", "JsonConverter"]),
        (b'\x00\x00\x00\x00\x07{"op":"c"}', ["JSON Schema with schema 7"]),
        (b"Struct{after=Struct{id=1}}", ["Java object", "JsonConverter"]),
        (json.dumps(json.dumps(event("c", None, {"id": 1}))).encode(), ["JSON text inside a string"]),
        ({"id": 1, "v": "a", "__deleted": "false"}, ["ExtractNewRecordState", "'id', 'v'"]),
        (CANAL, ["Canal JSON", "set source.format to canal-json"]),
        (MAXWELL, ["Maxwell JSON", "set source.format to maxwell-json"]),
        ({"after": {"id": 1}, "updated": "1.0"}, ["CockroachDB", "enriched"]),
        ({"after": {"id": 1}, "source": {}}, ["it has no field op, but after; let no transform", "CockroachDB"]),
        (
            {"payload": {"before": {}, "after": {"id": 1}}},
            ["its payload has no field op, but before and after; let no"],
        ),
        ({"schema": None, "payload": {"id": 1}}, ["its payload has no field op; it is a row", "upsert-json", "'id'"]),
        ({"id": 1, "payload": "x"}, ["it has no field op; it is a row without envelope"]),
        ({**event("c"), "op": None, "after": {"id": 1}}, ["it has null in the field op, but after"]),
        ({**event("u"), "after": "{", "source": MONGODB}, ["after holds no document of MongoDB: value is not JSON"]),
        ({**event("c"), "after": '{"id": 1}'}, ["op c without a row in after", "JSON text"]),
    ],
)
def test_the_reason_names_what_it_looks_like(value: Any, words: list[str]) -> None:
    goals = dict.fromkeys((SOURCE, SourceTable.of_topic(TOPIC)), TWO_COLUMNS)

    (row,) = DebeziumJsonDecoder().decode(records([value]), goals).quarantine

    assert [word for word in words if word not in row.reason] == []


def test_rows_without_envelope_of_many_tables_are_one_kind_of_reason() -> None:
    rows: list[Json] = [{"id": 1}, {"other": "x", "more": 2}]

    reasons = {kind_of_reason(row.reason) for row in DebeziumJsonDecoder().decode(records(rows), {}).quarantine}

    assert len(reasons) == 1
