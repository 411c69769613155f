"""Protocol Buffers: presence, exact numbers, nested types, and framing; against the library's own JSON form."""

from __future__ import annotations

import base64
import json
import re
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from sources.changes import RECORD_SCHEMA, SourceTable
from sources.decode_target import DecodeTarget
from sources.plain.decoder import PlainDecoder
from sources.plain.options import PlainOptions
from sources.plain.protobuf_options import ProtobufSchemas
from sources.plain.protobuf_values import ProtobufValues
from sources.protobuf.message_rows import message_rows
from sources.values.value_forms import ValueForms
from tests.support.plain_pipeline import TOPIC, PlainPipeline, plain_batch
from tests.support.protobuf_messages import (
    F,
    class_of,
    field,
    file,
    files_with,
    framed,
    map_entry,
    named,
    optional,
    order,
    serialized,
)
from tests.support.registry_server import RegistryServer, running_registry

Message: Any = descriptor_pb2.DescriptorProto
SOURCE = SourceTable.of_topic(TOPIC)


def pipeline_of(directory: Path, files: descriptor_pb2.FileDescriptorSet, **rule: object) -> PlainPipeline:
    place = directory / "shop.desc"
    place.write_bytes(files.SerializeToString())
    form = {"protobuf": {"descriptor_file": str(place), "message": "shop.Order"}}
    return PlainPipeline(directory, form, rule or {"primary_key": ["id"]})


def test_columns_and_values_of_all_kinds(tmp_path: Path) -> None:
    files = files_with(order())
    cls = class_of(files, "shop.Order")
    pipeline = pipeline_of(tmp_path, files)
    full = cls(id=-(1 << 63), state=1, total=(1 << 64) - 1, cash=0, raw=b"\xff", note="")
    full.lines.add(sku="a", qty=(1 << 32) - 1)
    full.lines.add()
    full.tags[7] = 0.5
    full.tags[-1] = 2
    full.at.FromJsonString("2024-05-01T10:00:00.123456789Z")
    full.took.FromJsonString("-1.5s")
    full.nick.value = ""
    full.more.update({"a": [1, None]})
    full.parent.id = 5

    pipeline.run(
        plain_batch([(None, full.SerializeToString()), (None, cls(id=2, state=9).SerializeToString()), (b"3", b"")])
    )

    assert pipeline.types == {
        "id": "BIGINT NOT NULL", "state": "STRING", "total": "DECIMAL(20, 0)", "card": "STRING", "cash": "INT",
        "lines": "ARRAY<ROW<sku STRING, qty BIGINT>>", "tags": "MAP<INT NOT NULL, DOUBLE>",
        "at": "TIMESTAMP(9) WITH LOCAL TIME ZONE", "took": "STRING", "nick": "STRING", "more": "STRING",
        "raw": "BYTES", "parent": "STRING", "note": "STRING",
    }  # fmt: skip
    first, empty, second = (next(row for row in pipeline.rows() if row["id"] == id_) for id_ in (-(1 << 63), 0, 2))
    at = first.pop("at")
    assert at.value == np.datetime64("2024-05-01T10:00:00.123456789").astype(np.int64)
    assert first == {
        "id": -(1 << 63), "state": "PAID", "total": Decimal((1 << 64) - 1), "card": None, "cash": 0,
        "lines": [{"sku": "a", "qty": (1 << 32) - 1}, {"sku": "", "qty": 0}], "tags": [(-1, 2.0), (7, 0.5)],
        "took": "-1.5s", "nick": "", "more": '{"a": [1.0, null]}', "raw": b"\xff", "parent": '{"id": "5"}', "note": "",
    }  # fmt: skip
    unset: dict[str, Any] = dict.fromkeys(("card", "cash", "at", "took", "nick", "more", "parent", "note"))
    unset |= {"total": 0, "lines": [], "tags": [], "raw": b""}
    assert second == {"id": 2, "state": "9", **unset}
    assert empty == {"id": 0, "state": "NEW", **unset}
    takes_null = {column.name for column in message_rows(cls.DESCRIPTOR).schema.columns if column.is_optional}
    assert takes_null == {name for name, value in unset.items() if value is None}


def test_deletes_and_fields_that_the_file_does_not_have(tmp_path: Path) -> None:
    known, newer = order(), order()
    newer.message_type[0].field.append(field("extra", 50, F.TYPE_STRING))
    cls = class_of(files_with(newer), "shop.Order")
    pipeline = pipeline_of(tmp_path, files_with(known))

    pipeline.run(
        plain_batch([(None, cls(id=n, extra="x").SerializeToString()) for n in range(1, 30)]),
        plain_batch([(str(n).encode(), None) for n in range(1, 29)], first=29),
    )

    assert (pipeline.rows("id"), "extra" in pipeline.types) == ([(29,)], False)


def test_a_registry_names_the_message_of_each_record(tmp_path: Path) -> None:
    main = order()
    fields = [field("id", 1, F.TYPE_INT64), field("b", 2, F.TYPE_MESSAGE, of=".shop.Base")]
    main.message_type.append(Message(name="Other", field=fields))
    main.dependency.append("base.proto")
    base = file([Message(name="Base", field=[field("x", 1, F.TYPE_FIXED64)])], name="base.proto")
    files = files_with(base, main)
    first, line, other = (class_of(files, f"shop.{name}") for name in ("Order", "Order.Line", "Other"))
    unnamed = descriptor_pb2.FileDescriptorProto.FromString(main.SerializeToString())
    unnamed.name = ""
    answer = {
        "schemaType": "PROTOBUF",
        "schema": serialized(unnamed),
        "references": [{"name": "base.proto", "subject": "base", "version": 1}],
    }
    server = RegistryServer({"7": answer, "8": {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3";'}, "9": "int"})
    server.subjects["base", 1] = serialized(base)
    values = [
        framed(first(id=1, note="n"), 7), framed(line(sku="s"), 7, (0, 0)),
        framed(other(id=2, b={"x": 1 << 63}), 7, (1,)), framed(first(id=3), 8),
        framed(first(id=4), 9), framed(first(id=5), 6), framed(line(), 7, (0, 5)),
        first(id=6).SerializeToString(), b"\x00\x00\x00\x00\x07\x80\x80\x80\x80\x80",
    ]  # fmt: skip

    with running_registry(server) as running:
        pipeline = PlainPipeline(tmp_path, {"protobuf": {"registry": {"url": running.url()}}}, {"mode": "append"})
        pipeline.run(plain_batch([(None, value) for value in values]))

    assert pipeline.rows("id", "note", "sku", "b") == sorted(
        [(1, "n", None, None), (None, None, "s", None), (2, None, None, {"x": 1 << 63})], key=repr
    )
    assert "/schemas/ids/7?format=serialized" in [path for path, _ in server.requests]
    told = ["does not serve it in binary form", "schema 9 .* not Protocol Buffers", "schema 6 does not exist",
            "no message with the indexes", "value names no schema", "indexes of the message"]  # fmt: skip
    assert [*pipeline.bad] == [3, 4, 5, 6, 7, 8]
    for reason, words in zip(pipeline.bad.values(), told, strict=True):
        assert re.search(words, reason), reason


def test_moments_outside_of_time_and_broken_bytes_go_to_quarantine(tmp_path: Path) -> None:
    files = files_with(order())
    cls = class_of(files, "shop.Order")
    pipeline = pipeline_of(tmp_path, files, mode="append", columns={"types": {"at": "TIMESTAMP_LTZ(6)"}})
    good = cls(id=1, at={"seconds": -62135596800})
    bad = [cls(id=2, at={"seconds": 1 << 60}), cls(id=3, at={"nanos": -1}), cls(id=4, at={"nanos": 1})]
    values = [m.SerializeToString() for m in (good, *bad)] + [good.SerializeToString()[:-1], b"\x07"]

    pipeline.run(plain_batch([(None, value) for value in values]))

    assert [str(row["at"])[:10] for row in pipeline.rows()] == ["0001-01-01"]
    assert [*pipeline.bad] == [1, 2, 3, 4, 5]


def test_proto2_has_presence_everywhere_and_bad_text_is_that_records_own(tmp_path: Path) -> None:
    message = Message(name="Order", field=[field("id", 1, F.TYPE_INT32), field("note", 2, F.TYPE_STRING)])
    files = files_with(file([message], syntax="proto2"))
    pipeline = pipeline_of(tmp_path, files, mode="append")

    pipeline.run(plain_batch([(None, v) for v in [b"\x08\x01", b"\x12\x01\xff", b"\x12\x01a"]]))

    assert pipeline.rows("id", "note") == [(1, None), (None, "a")]
    assert [*pipeline.bad] == [1]


CLOSED: Any = descriptor_pb2.EnumDescriptorProto(name="Size")
CLOSED.value.add(name="S", number=1)
CLOSED.value.add(name="M", number=2)


@pytest.mark.parametrize("together", [True, False])
def test_numbers_that_a_closed_enum_does_not_know_are_never_null(tmp_path: Path, together: bool) -> None:
    """Of a list nobody knows where they stood, so its record goes to quarantine."""
    fields = [field("id", 1, F.TYPE_INT32), field("size", 2, F.TYPE_ENUM, of=".shop.Size")]
    fields += [field("all", 3, F.TYPE_ENUM, of=".shop.Size", repeated=True)]
    nested = Message(name="Order", field=fields)
    outer = Message(name="Outer", field=[fields[0], field("order", 2, F.TYPE_MESSAGE, of=".shop.Order")])
    place = tmp_path / "shop.desc"
    place.write_bytes(files_with(file([nested, outer], [CLOSED], syntax="proto2")).SerializeToString())
    form = {"protobuf": {"descriptor_file": str(place), "message": "shop.Outer"}}
    pipeline = PlainPipeline(tmp_path, form, {"mode": "append"})
    orders = [
        b"\x10\x02", b"\x10\x09", b"\x10" + b"\xff" * 9 + b"\x01", b"", b"\x18\x01\x18\x09", b"\x10\x01\x10\x09",
        b"\x18\x01\x18\x02",
    ]  # fmt: skip
    values = [bytes([8, n, 18, len(order)]) + order for n, order in enumerate(orders)]
    batches = [plain_batch([(None, v)], n) for n, v in enumerate(values)]

    pipeline.run(*([plain_batch([(None, v) for v in values])] if together else batches))

    found = {id_: (order["size"], order["all"]) for id_, order in pipeline.rows("id", "order")}
    assert found == {0: ("M", []), 1: ("9", []), 2: ("-1", []), 3: (None, []), 6: (None, ["S", "M"])}
    assert {*pipeline.bad} == {4, 5}


def test_an_enum_value_with_aliases_has_its_first_name(tmp_path: Path) -> None:
    """As in protobuf's own JSON; so an alias that is added later changes no text."""
    kind: Any = descriptor_pb2.EnumDescriptorProto(name="Size")
    kind.options.allow_alias = True
    for name, number in (("Z", 0), ("ONE", 1), ("UNO", 1)):
        kind.value.add(name=name, number=number)
    order_ = Message(name="Order", field=[field("size", 1, F.TYPE_ENUM, of=".shop.Size")])
    pipeline = pipeline_of(tmp_path, files_with(file([order_], [kind])), mode="append")
    pipeline.run(plain_batch([(None, b"\x08\x01")]))
    assert pipeline.rows("size") == [("ONE",)]


def test_headers_name_schema_and_message(tmp_path: Path) -> None:
    main = order()
    main.message_type.append(Message(name="Other", field=[field("id", 1, F.TYPE_INT64)]))
    alone = file([Message(name="Alone", field=[field("id", 1, F.TYPE_INT64)])])
    files = files_with(main)
    first, other = class_of(files, "shop.Order"), class_of(files, "shop.Other")
    value = class_of(files_with(alone), "shop.Alone")(id=9).SerializeToString()
    guid = b"\x01" + bytes(range(16))
    server = RegistryServer({
        number: {"schemaType": "PROTOBUF", "schema": serialized(one)}
        for number, one in (("7", main), ("8", alone), ("00010203-0405-0607-0809-0a0b0c0d0e0f", main))
    })  # fmt: skip
    apicurio = ("apicurio.value.contentId", (7).to_bytes(8, "big"))
    records = [
        (other(id=1), [("__value_schema_id", guid + b"\x02\x02")]),
        (first(id=2), [("__value_schema_id", guid + b"\x00")]),
        (other(id=3), [("__value_schema_id", b"\x00\x00\x00\x00\x07\x02\x02")]),
        (other(id=4), [apicurio, ("apicurio.protobuf.type", b"Other")]),
        (first(id=5), [apicurio, ("apicurio.protobuf.type", b"Gone")]),
        (first(id=6), [apicurio]),
        (first(id=7), [("__value_schema_id", guid + b"\x02\x20")]),
    ]
    rows = [
        {"topic": TOPIC, "partition": 0, "offset": n, "value": message.SerializeToString(),
         "headers": [{"key": key, "value": text} for key, text in headers]}
        for n, (message, headers) in enumerate(records)
    ]  # fmt: skip
    rows.append({"topic": TOPIC, "partition": 0, "offset": 7, "value": value,
                 "headers": [{"key": "apicurio.value.contentId", "value": (8).to_bytes(8, "big")}]})  # fmt: skip

    with running_registry(server) as running:
        pipeline = PlainPipeline(tmp_path, {"protobuf": {"registry": {"url": running.url()}}}, {"mode": "append"})
        pipeline.run(pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA))

    assert pipeline.rows("id", "state") == [(1, None), (2, "NEW"), (3, None), (4, None), (9, None)]
    told = {4: "it has no message Gone", 5: "no header names the message", 6: "no message with the indexes"}
    assert {*pipeline.bad} == {*told}
    assert all(words in pipeline.bad[offset] for offset, words in told.items())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "give exactly one of `registry` and `descriptor_file`"),
        ({"descriptor_file": "a"}, "`descriptor_file` needs `message`"),
        (
            {"descriptor_file": "/x/shop.proto", "message": "shop.Order"},
            "shop.proto is source text; name the file that `protoc --include_imports --descriptor_set_out=shop.desc"
            " shop.proto` writes",
        ),
        ({"registry": {"file": "a"}, "message": "b"}, "`message` has no effect with `registry`"),
    ],
)
def test_options_that_do_not_go_together_are_refused(tmp_path: Path, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        PlainPipeline(tmp_path, {"protobuf": options})


# ---------------------------------------------------------------- any message

_INTS = {
    F.TYPE_INT32: (-(1 << 31), (1 << 31) - 1), F.TYPE_SINT64: (-(1 << 63), (1 << 63) - 1),
    F.TYPE_UINT32: (0, (1 << 32) - 1), F.TYPE_FIXED64: (0, (1 << 64) - 1), F.TYPE_SFIXED32: (-(1 << 31), (1 << 31) - 1),
}  # fmt: skip
_SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    **{kind: st.integers(*bounds) for kind, bounds in _INTS.items()},
    F.TYPE_STRING: st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    F.TYPE_BYTES: st.binary(max_size=5),
    F.TYPE_BOOL: st.booleans(),
    F.TYPE_FLOAT: st.floats(width=32, allow_nan=False, allow_infinity=False),
    F.TYPE_DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
}


@st.composite
def messages(draw: st.DrawFn, level: int = 0) -> tuple[Any, st.SearchStrategy[dict[str, Any]]]:
    """A message type and values of it: scalars and messages, plain, optional, repeated and in maps."""
    message = Message(name=f"M{level}")
    values: dict[str, st.SearchStrategy[Any]] = {}
    for number in range(1, draw(st.integers(1, 5)) + 1):
        name = f"f{number}"
        if level < 2 and draw(st.booleans()):
            inner, of_inner = draw(messages(level=level + 1))
            if not any(one.name == inner.name for one in message.nested_type):
                message.nested_type.append(inner)
                path = ".shop." + ".".join(f"M{n}" for n in range(level + 2))
                repeated = draw(st.booleans())
                message.field.append(field(name, number, F.TYPE_MESSAGE, repeated=repeated, of=path))
                values[name] = st.lists(of_inner, max_size=3) if repeated else of_inner
            continue
        kind = draw(st.sampled_from([*_SCALARS]))
        match draw(st.sampled_from(["plain", "optional", "repeated", "map"])):
            case "plain":
                message.field.append(field(name, number, kind))
                values[name] = _SCALARS[kind]
            case "optional":
                message.field.append(optional(message, field(name, number, kind)))
                values[name] = _SCALARS[kind]
            case "repeated":
                message.field.append(field(name, number, kind, repeated=True))
                values[name] = st.lists(_SCALARS[kind], max_size=4)
            case _:
                entry = f"F{number}Entry"
                message.nested_type.append(map_entry(entry, F.TYPE_STRING, field("value", 2, kind)))
                path = ".shop." + ".".join(f"M{n}" for n in range(level + 1)) + f".{entry}"
                message.field.append(field(name, number, F.TYPE_MESSAGE, repeated=True, of=path))
                values[name] = st.dictionaries(st.text("ab", max_size=2), _SCALARS[kind], max_size=3)
    return message, st.fixed_dictionaries({}, optional=values)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.data())
def test_any_message_is_stored_as_its_json_says(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    message, values = data.draw(messages())
    rows = data.draw(st.lists(values, min_size=1, max_size=4))
    files = files_with(file([message]))
    place = tmp_path_factory.mktemp("any") / "m.desc"
    place.write_bytes(files.SerializeToString())
    cls = class_of(files, "shop.M0")
    if not cls.DESCRIPTOR.fields:
        return
    decoder = PlainDecoder(
        partial(ProtobufValues, schemas=ProtobufSchemas(None, str(place), "shop.M0")), PlainOptions(), ValueForms()
    )
    made = [cls(**row) for row in rows]
    batch = plain_batch([(None, one.SerializeToString()) for one in made])

    (seen,) = decoder.decode(batch, {}).observations
    columns = tuple((c.name, c.type) for c in seen.columns if c.type is not None)
    decoded = decoder.decode(batch, {SOURCE: DecodeTarget(columns, (), on_change="fail")})

    assert decoded.quarantine == ()
    for found, one in zip(decoded.changes[0].rows.to_pylist(), made, strict=True):
        told = json_format.MessageToDict(
            one, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        assert {n: _plain(found[n]) for n, _ in columns} == {n: _told(told.get(n), t) for n, t in columns}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        is_map = bool(value) and isinstance(value[0], tuple)
        return {k: _plain(v) for k, v in value} if is_map else [_plain(item) for item in value] or None
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return repr(value) if isinstance(value, float) else value


def _told(value: Any, t: Any) -> Any:
    """The JSON form of a value as a column has it; no items are None, as in ``_plain``."""
    text = str(t).removesuffix(" NOT NULL")
    if value is None or (value in ([], {}) and text[:3] in ("ARR", "MAP")):
        return {f.name: None for f in t.fields} if value is not None and text.startswith("ROW") else None
    if text.startswith("ARRAY"):
        return [_told(item, t.element) for item in value]
    if text.startswith("MAP"):
        return {key: _told(item, t.element or t.value) for key, item in value.items()}
    if text.startswith("ROW"):
        return {f.name: _told(value.get(f.name), f.type) for f in t.fields}
    match text:
        case "BIGINT" | "INT":
            return int(value)
        case "DECIMAL(20, 0)":
            return Decimal(value)
        case "BYTES":
            return base64.b64decode(value)
        case "FLOAT":
            return repr(float(np.float32(value)))
        case "DOUBLE":
            return repr(float(value))
        case "STRING" if isinstance(value, dict):
            return json.dumps(value)
    return value


def test_indexes_of_another_message_than_the_stated_one_go_to_quarantine(tmp_path: Path) -> None:
    main = order()
    main.message_type.append(Message(name="Other", field=[field("id", 1, F.TYPE_INT64)]))
    files = files_with(main)
    first, other = class_of(files, "shop.Order"), class_of(files, "shop.Other")
    pipeline = pipeline_of(tmp_path, files)
    values = [framed(first(id=1), 7), framed(other(id=2), 7, (1,)), _ID + named(first(id=3)), _ID + named(other(id=4))]

    pipeline.run(plain_batch([(None, value) for value in values]))

    assert pipeline.rows("id") == [(1,), (3,)]
    assert pipeline.bad == {
        1: "value is not a message shop.Order: it says that it is shop.Other",
        3: "value is not a message shop.Order: it says that it is Other",
    }


_ID = b"\x00\x00\x00\x00\x07"
_CONTENT_ID = ("apicurio.value.contentId", (7).to_bytes(8, "big"))


def id_message(name: str, *nested: Any) -> Any:
    return Message(name=name, field=[field("id", 1, F.TYPE_INT64)], nested_type=nested)


def records_of(values: list[tuple[bytes, list[tuple[str, bytes]]]]) -> pa.RecordBatch:
    rows = [
        {"topic": TOPIC, "partition": 0, "offset": n, "value": value,
         "headers": [{"key": key, "value": text} for key, text in headers]}
        for n, (value, headers) in enumerate(values)
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


@pytest.mark.slow
def test_a_name_in_front_of_a_message_says_what_it_is(tmp_path: Path) -> None:
    """Apicurio's serializer writes it behind the id, and from its version 3 on also if the id is in a header."""
    names = ["Or", "Bill", "EightLet", "N" * 200]
    files = files_with(file([id_message(name) for name in names]))
    classes = [class_of(files, f"shop.{name}") for name in names]
    long_id = b"\x00" + (7).to_bytes(8, "big")
    values: list[tuple[bytes, list[tuple[str, bytes]]]] = []
    for number, (name, cls) in enumerate(zip(names, classes, strict=True)):
        told = ("apicurio.protobuf.type", name.encode())
        message = cls(id=number)
        values += [
            (_ID + named(message), []), (long_id + named(message), []), (named(message), [_CONTENT_ID]),
            (named(message), [_CONTENT_ID, told]), (message.SerializeToString(), [_CONTENT_ID, told]),
            (named(message), [_CONTENT_ID, (told[0], f"shop.{name}".encode())]),
            (named(message, f"shop.{name}"), [_CONTENT_ID, told]),
            (framed(message, 7, (number,)), []), (_ID + named(message, f"shop.{name}"), []),
        ]  # fmt: skip
    bad = [
        (_ID + named(classes[0](id=9), "Gone"), []), (named(classes[0](id=9), "Gone"), [_CONTENT_ID]),
        (_ID + b"\x07\x0a\x05Bill", []), (_ID, []),
    ]  # fmt: skip
    schema = {"schemaType": "PROTOBUF", "schema": serialized(files.file[-1])}
    server = RegistryServer({"7": schema}, global_ids={"7": serialized(files.file[-1])})
    server.prefix = "/apis/ccompat/v7"

    with running_registry(server) as running:
        pipeline = PlainPipeline(tmp_path, {"protobuf": {"registry": {"url": running.url()}}}, {"mode": "append"})
        pipeline.run(records_of(values + bad))

    assert pipeline.rows("id") == sorted((number,) for number in range(len(names)) for _ in range(9))
    assert {*pipeline.bad} == {*range(len(values), len(values) + len(bad))}
    assert "the schema has the messages Bill, EightLet" in pipeline.bad[len(values)]


@pytest.mark.slow
def test_what_may_be_a_name_or_indexes_goes_to_quarantine(tmp_path: Path) -> None:
    """Bytes that are the indexes [5, 1] and two letters of a message are the name of two letters too."""
    inner = [id_message("First"), Message(name="Second", field=[field("a", 12, F.TYPE_FIXED64)])]
    messages = [*(id_message(f"M{n}") for n in range(5)), id_message("Sixth", *inner)]
    value = _ID + b"\x04\x0a\x02" + b"a" + b"b" + b"\x00" * 7
    found = []
    for name in ("ab", "other"):
        files = files_with(file([*messages, id_message(name)]))
        server = RegistryServer({"7": {"schemaType": "PROTOBUF", "schema": serialized(files.file[-1])}})
        with running_registry(server) as running:
            form = {"protobuf": {"registry": {"url": running.url()}}}
            pipeline = PlainPipeline(tmp_path / name, form, {"mode": "append"})
            pipeline.run(plain_batch([(None, value)]))
        found.append(pipeline.bad)

    assert found[0][0].startswith("the indexes of the message, as Confluent writes them, may be a name")
    assert (found[1], pipeline.rows("a")) == ({}, [(int.from_bytes(b"b" + b"\x00" * 7, "little"),)])


@pytest.mark.parametrize("counts_entries", [True, False])
def test_indexes_may_count_the_entries_of_maps_or_leave_them_out(tmp_path: Path, counts_entries: bool) -> None:
    """Confluent's serializers do either, by their settings; no value is such an entry."""
    entry = map_entry("TagsEntry", F.TYPE_STRING, field("value", 2, F.TYPE_INT64))
    tags = field("tags", 1, F.TYPE_MESSAGE, repeated=True, of=".shop.Outer.TagsEntry")
    outer = Message(name="Outer", field=[tags], nested_type=[entry, id_message("Line")])
    files = files_with(file([outer]))
    line = class_of(files, "shop.Outer.Line")
    server = RegistryServer({"7": {"schemaType": "PROTOBUF", "schema": serialized(files.file[-1])}})

    with running_registry(server) as running:
        pipeline = PlainPipeline(tmp_path, {"protobuf": {"registry": {"url": running.url()}}}, {"mode": "append"})
        pipeline.run(plain_batch([(None, framed(line(id=5), 7, (0, int(counts_entries))))]))

    assert (pipeline.rows(), pipeline.bad) == ([{"id": 5}], {})
