"""Columns of binary formats from inside of nested fields (`columns.paths`), by the schema of each record."""

from __future__ import annotations

import io
import json
import struct
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2

from tests.support.plain_pipeline import PlainPipeline, plain_batch
from tests.support.protobuf_messages import F, class_of, field, file, files_with, framed, serialized

Message: Any = descriptor_pb2.DescriptorProto
COLUMNS: dict[str, object] = {
    "types": {
        "city": "STRING", "zip": "BIGINT", "at": "TIMESTAMP_LTZ(3)", "paid": "DECIMAL(10, 2)", "tags": "ARRAY<STRING>",
        "home": "ROW<city STRING, zip INT>", "none": "INT", "id": "BIGINT",
    },
    "paths": {
        "city": "user.home.city", "zip": "user.home.zip", "at": "user.at", "paid": "user.paid", "tags": "user.tags",
        "home": "user.home", "none": "user.home.city.x", "id": "user.id",
    },
}  # fmt: skip
MOMENT = datetime(2024, 5, 1, 10, tzinfo=UTC)


def avro_schema(*more: Any) -> Any:
    home = {"type": "record", "name": "Home", "fields": [
        {"name": "city", "type": ["null", "string"]}, {"name": "zip", "type": "int"},
    ]}  # fmt: skip
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}
    user = {"type": "record", "name": "User", "fields": [
        {"name": "id", "type": "long"}, {"name": "home", "type": ["null", home]}, {"name": "paid", "type": decimal},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}}, *more,
    ]}  # fmt: skip
    return {"type": "record", "name": "Visit", "fields": [
        {"name": "page", "type": "string"}, {"name": "user", "type": ["null", user]}, {"name": "id", "type": "int"},
    ]}  # fmt: skip


PLAIN = {
    "type": "record",
    "name": "Visit",
    "fields": [{"name": "page", "type": "string"}, {"name": "id", "type": "int"}],
}
TEXT = {
    "type": "record",
    "name": "Visit",
    "fields": [{"name": "page", "type": "string"}, {"name": "user", "type": "string"}],
}


def avro(number: int, schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    plain = json.loads(json.dumps(schema).replace("logicalType", "other"))
    fastavro.schemaless_writer(out, fastavro.parse_schema(plain), value)
    return struct.pack(">bI", 0, number) + out.getvalue()


def user_of(number: int, **more: Any) -> dict[str, Any]:
    home = None if number == 2 else {"city": None if number == 3 else "Bern", "zip": number}
    at = int(MOMENT.timestamp() * 1000)
    return {"id": 10 + number, "home": home, "paid": b"\x04\xe2", "at": at, "tags": ["a", "b"][:number], **more}


@pytest.mark.slow
@pytest.mark.parametrize("copies", [1, 30])
def test_avro_fills_columns_by_their_paths(tmp_path: Path, copies: int, caplog: pytest.LogCaptureFixture) -> None:
    schemas = {"1": avro_schema(), "2": avro_schema({"name": "more", "type": "int"}), "3": PLAIN, "4": TEXT}
    file_ = tmp_path / "schemas.json"
    file_.write_text(json.dumps({"schemas": schemas}))
    values = [
        *(avro(1, schemas["1"], {"page": "/", "user": user_of(n), "id": 0}) for n in (1, 2, 3)),
        avro(1, schemas["1"], {"page": "/", "user": None, "id": 0}),
        avro(2, schemas["2"], {"page": "/", "user": user_of(5, more=1), "id": 0}),
        avro(3, PLAIN, {"page": "/", "id": 7}),
        avro(4, TEXT, {"page": "/", "user": '{"id": 1}'}),
        # So many items are read one by one.
        avro(1, schemas["1"], {"page": "/", "user": {**user_of(6), "tags": ["x"] * 1500}, "id": 0}),
        avro(1, schemas["1"], {"page": "/", "user": user_of(1), "id": 0})[:-1],
    ]
    form = {"avro": {"registry": {"file": str(file_)}}}
    pipeline = PlainPipeline(tmp_path, form, {"mode": "append", "columns": {**COLUMNS, "drop": ["user"]}})

    pipeline.run(plain_batch([(None, value) for value in values * copies]))

    def row(number: int, tags: list[str], city: str | None = "Bern") -> tuple[Any, ...]:
        has_home = number != 2
        home = {"city": city, "zip": number} if has_home else None
        return (10 + number, city if has_home else None, number if has_home else None, tags, home, Decimal("12.50"))

    nothing = (None,) * 6
    expected = [row(1, ["a"]), row(2, ["a", "b"]), row(3, ["a", "b"], None), row(5, ["a", "b"]), row(6, ["x"] * 1500),
                nothing, nothing, (1, *nothing[1:])]  # fmt: skip
    assert pipeline.rows("id", "city", "zip", "tags", "home", "paid") == sorted(expected * copies, key=repr)
    assert {str(row["at"]) for row in pipeline.rows()} == {str(MOMENT), "None"}
    assert {row["none"] for row in pipeline.rows()} == {None}
    assert ("user" in pipeline.types, pipeline.types["id"]) == (False, "BIGINT")
    assert [offset % len(values) for offset in sorted(pipeline.bad)] == [8] * copies
    assert pipeline.reports[0].counts.accounted == len(values) * copies
    assert "'home' is declared as" not in caplog.text  # its type in the table is the declared one


@pytest.mark.parametrize("items", [0, 1500])
def test_a_path_leads_through_maps_and_unions_however_a_record_is_read(tmp_path: Path, items: int) -> None:
    """So many items are read one by one."""
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "string"}]}
    schema = {"type": "record", "name": "T", "fields": [
        {"name": "id", "type": "int"}, {"name": "many", "type": {"type": "array", "items": "int"}},
        {"name": "m", "type": {"type": "map", "values": "string"}},
        {"name": "n", "type": {"type": "map", "values": "int"}},
        {"name": "u", "type": ["null", "int", inner]}, {"name": "text", "type": "string"},
    ]}  # fmt: skip
    file_ = tmp_path / "schemas.json"
    file_.write_text(json.dumps({"schemas": {"1": schema}}))
    row = {"id": 1, "many": [1] * items, "m": {"k": "v"}, "n": {"k": 7}, "u": {"x": "ux"}, "text": '{"a": {"b": 5}}'}
    paths = {"a": "m.k", "b": "n.k", "c": "u.x", "d": "text.a.b", "e": "m.gone", "f": "text.a.b.c"}
    types = {name: "INT" if name in "bd" else "STRING" for name in paths}
    columns = {"types": types, "paths": paths}
    pipeline = PlainPipeline(
        tmp_path, {"avro": {"registry": {"file": str(file_)}}}, {"mode": "append", "columns": columns}
    )

    pipeline.run(plain_batch([(None, avro(1, schema, row)), (None, avro(1, schema, {**row, "u": 3, "text": "{"}))]))

    assert pipeline.rows(*paths) == sorted([("v", 7, "ux", 5, None, None), ("v", 7, None, None, None, None)], key=repr)


@pytest.mark.parametrize("copies", [1, 30])
def test_protobuf_fills_columns_by_their_paths(tmp_path: Path, copies: int) -> None:
    home = Message(name="Home", field=[field("city", 1, F.TYPE_STRING), field("zip", 2, F.TYPE_INT32)])
    user = Message(name="User", nested_type=[home], field=[
        field("id", 1, F.TYPE_INT64), field("home", 2, F.TYPE_MESSAGE, of=".shop.Visit.User.Home"),
        field("at", 3, F.TYPE_MESSAGE, of=".google.protobuf.Timestamp"),
        field("tags", 4, F.TYPE_STRING, repeated=True), field("paid", 5, F.TYPE_STRING),
    ])  # fmt: skip
    fields = [field("page", 1, F.TYPE_STRING), field("user", 2, F.TYPE_MESSAGE, of=".shop.Visit.User")]
    files = files_with(file([Message(name="Visit", field=fields, nested_type=[user]),
                             Message(name="Bare", field=[field("page", 1, F.TYPE_STRING)])]))  # fmt: skip
    visit, bare = class_of(files, "shop.Visit"), class_of(files, "shop.Bare")
    file_ = tmp_path / "schemas.json"
    file_.write_text(json.dumps({"schemas": {"1": {"schema": serialized(files.file[-1])}}}))
    whole = visit(user={"id": 5, "home": {"city": "Bern", "zip": 3011}, "tags": ["a"], "paid": "12.50"})
    whole.user.at.FromDatetime(MOMENT.replace(tzinfo=None))
    values = [framed(m, 1) for m in (whole, visit(user={"id": 6, "paid": "x"}), visit(page="/"), visit(user={"id": 7}))]
    values += [framed(bare(page="/"), 1, (1,)), framed(whole, 1)[:-1]]
    form = {"protobuf": {"registry": {"file": str(file_)}}}
    pipeline = PlainPipeline(tmp_path, form, {"mode": "append", "columns": COLUMNS})

    pipeline.run(plain_batch([(None, value) for value in values * copies]))

    expected: list[Any] = [
        (5, "Bern", 3011, ["a"], {"city": "Bern", "zip": 3011}, Decimal("12.50")),
        *[(None,) * 6] * 2,
    ]
    assert pipeline.rows("id", "city", "zip", "tags", "home", "paid") == sorted(expected * copies, key=repr)
    assert {str(row["at"])[:19] for row in pipeline.rows() if row["at"]} == {"2024-05-01 10:00:00"}
    assert {offset % len(values) for offset in pipeline.bad} == {1, 3, 5}
    assert pipeline.bad[1] == 'column paid DECIMAL(10, 2): string "x" does not fit DECIMAL(10, 2)'


def test_a_path_that_comes_later_fills_the_rows_from_then_on(tmp_path: Path) -> None:
    file_ = tmp_path / "schemas.json"
    file_.write_text(json.dumps({"schemas": {"1": avro_schema()}}))
    form = {"avro": {"registry": {"file": str(file_)}}}
    first, second = (avro(1, avro_schema(), {"page": "/", "user": user_of(1), "id": n}) for n in (1, 2))
    pipeline = PlainPipeline(tmp_path, form, {"primary_key": ["id"]})
    pipeline.run(plain_batch([(None, first)]))
    columns = {"types": {"city": "STRING"}, "paths": {"city": "user.home.city"}}
    later = PlainPipeline(tmp_path, form, {"primary_key": ["id"], "columns": columns}, pipeline.reports)

    later.run(plain_batch([(None, second)], first=1))

    assert later.rows("id", "city") == [(1, None), (2, "Bern")]
