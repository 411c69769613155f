"""Plain Avro: rows of values by the schema that wrote each, against fastavro."""

from __future__ import annotations

import io
import json
import struct
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.types import parse_type
from sources.avro.registry_settings import RegistrySettings
from sources.changes import SourceTable
from sources.decode_target import DecodeTarget
from sources.plain.avro_options import AvroPlainOptions, AvroSchemas
from sources.plain.avro_values import AvroValues
from sources.plain.decoder import PlainDecoder
from sources.values.value_forms import ValueForms
from tests.sources.avro.drawn_schemas import schemas
from tests.support.plain_pipeline import TOPIC, PlainPipeline, plain_batch

SOURCE = SourceTable.of_topic(TOPIC)
ROW = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "int"}, {"name": "v", "type": ["null", "string"]}],
}
WIDER = {**ROW, "fields": [*ROW["fields"], {"name": "n", "type": "long"}]}
KEY = {"type": "record", "name": "K", "fields": [{"name": "id", "type": "int"}]}


def encoded(schema: Any, value: Any, number: int | None = None) -> bytes:
    """Avro, behind Confluent's prefix if the schema has a number."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return (b"" if number is None else struct.pack(">bI", 0, number)) + out.getvalue()


def registry(directory: Path, **named: Any) -> dict[str, Any]:
    file = directory / "schemas.json"
    file.write_text(json.dumps({"schemas": {name[1:]: schema for name, schema in named.items()}}))
    return {"registry": {"file": str(file)}}


@pytest.mark.parametrize("copies", [1, 40])
def test_records_are_added_by_the_schema_that_wrote_each(tmp_path: Path, copies: int) -> None:
    pipeline = PlainPipeline(tmp_path, {"avro": registry(tmp_path, _1=ROW, _2=WIDER)}, {"mode": "append"})
    old, new = encoded(ROW, {"id": 1, "v": None}, 1), encoded(WIDER, {"id": 2, "v": "b", "n": 1 << 40}, 2)

    pipeline.run(
        plain_batch([(None, value) for value in [old, new] * copies]), plain_batch([(b"k", None), (b"", b"")], 99)
    )

    assert pipeline.rows("id", "v", "n") == [(1, None, None)] * copies + [(2, "b", 1 << 40)] * copies
    assert pipeline.types == {"id": "INT", "v": "STRING", "n": "BIGINT"}
    assert ({*pipeline.bad}, pipeline.skipped()) == ({100}, {"tombstones": 1})


def nested(*names: str) -> dict[str, Any]:
    """A schema whose rows have an address with these fields, alone and in a list."""
    fields = [{"name": n, "type": ["null", "string"], "default": None} for n in names]
    address = {"type": "record", "name": "A", "fields": fields}
    return {**ROW, "fields": [
        {"name": "id", "type": "int"}, {"name": "at", "type": ["null", address]},
        {"name": "all", "type": {"type": "array", "items": "A"}},
    ]}  # fmt: skip


@pytest.mark.parametrize("size", [1, 5])
def test_new_fields_of_nested_records_are_added_to_their_rows(tmp_path: Path, size: int) -> None:
    old, new = nested("city"), nested("zip", "city", "street")
    pipeline = PlainPipeline(tmp_path, {"avro": registry(tmp_path, _1=old, _2=new)}, {"primary_key": ["id"]})
    first, second = {"city": "Bern"}, {"city": "Ulm", "zip": "89073", "street": None}
    values = [
        encoded(old, {"id": 1, "at": first, "all": [first]}, 1),
        encoded(new, {"id": 2, "at": second, "all": [second]}, 2),
        encoded(old, {"id": 3, "at": None, "all": []}, 1),
        encoded(old, {"id": 2, "at": first, "all": [first, first]}, 1),
        encoded(new, {"id": 4, "at": second, "all": []}, 2),
    ]

    pipeline.run(*(plain_batch([(None, v) for v in values[n : n + size]], n) for n in range(0, 5, size)))

    names = pipeline.types["at"].removeprefix("ROW<").removesuffix(">").replace(" STRING", "").split(", ")
    assert sorted(names) == ["city", "street", "zip"]
    bern, ulm = {"city": "Bern", "zip": None, "street": None}, {**second}
    assert pipeline.rows("id", "at", "all") == [(1, bern, [bern]), (2, bern, [bern] * 2), (3, None, []), (4, ulm, [])]
    assert pipeline.bad == {}


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({}, encoded(KEY, {"id": 2}, 3)),
        ({}, encoded("int", 2, 4)),
        ({"key_format": "avro"}, encoded("int", 2, 4)),
        ({}, b'{"id":2}'),
        ({}, b"2"),
        ({"key_format": "int"}, (2).to_bytes(4, "big")),
    ],
)
def test_a_declared_key_is_deleted_by_message_keys_of_any_serializer(
    tmp_path: Path, options: dict[str, str], key: bytes
) -> None:
    form = {"avro": {**registry(tmp_path, _1=ROW, _3=KEY, _4="int"), **options}}
    pipeline = PlainPipeline(tmp_path, form, {"primary_key": ["id"]})
    rows = [encoded(ROW, {"id": n, "v": v}, 1) for n, v in ((1, "a"), (2, "b"), (1, "c"))]

    pipeline.run(plain_batch([(None, row) for row in rows]), plain_batch([(key, None)], first=3))

    assert pipeline.rows() == [{"id": 1, "v": "c"}]
    assert not Path(pipeline.quarantine.path).exists()


def test_a_key_of_another_schema_than_the_row_keeps_its_type(tmp_path: Path) -> None:
    """The key alone has the column, as bytes that are a decimal."""
    price = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
    key = {"type": "record", "name": "K", "fields": [{"name": "price", "type": price}]}
    row = {**ROW, "fields": [*ROW["fields"], {"name": "price", "type": price}]}
    form = {"avro": registry(tmp_path, _1=row, _2=key)}
    pipeline = PlainPipeline(tmp_path, form, {"primary_key": ["price"]})

    pipeline.run(
        plain_batch([(None, encoded(row, {"id": n, "v": None, "price": Decimal(n) / 4}, 1)) for n in (1, 2)]),
        plain_batch([(encoded(key, {"price": Decimal("0.25")}, 2), None)], first=2),
    )

    assert pipeline.rows("id", "price") == [(2, Decimal("0.50"))]


def test_one_schema_file_serves_bare_values(tmp_path: Path) -> None:
    file = tmp_path / "row.avsc"
    file.write_text(json.dumps(["null", ROW]))
    pipeline = PlainPipeline(tmp_path, {"avro": {"schema_file": str(file)}}, {"primary_key": ["id"]})

    values = [encoded(["null", ROW], {"id": n, "v": "x"}) for n in range(20)]
    pipeline.run(
        plain_batch([(None, value) for value in values]), plain_batch([(b"7", b"\x00"), (b"8", b"\x02\x80")], 20)
    )

    assert pipeline.rows("id") == sorted([(n,) for n in range(20) if n != 7], key=repr)
    assert [*pipeline.bad] == [21]


def test_logical_types_are_those_of_avro(tmp_path: Path) -> None:
    types = {
        "moment": {"type": "long", "logicalType": "timestamp-micros"},
        "local": {"type": "long", "logicalType": "local-timestamp-millis"},
        "fine": {"type": "long", "logicalType": "timestamp-nanos"},
        "day": {"type": "int", "logicalType": "date"},
        "price": [
            "null",
            {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 8, "scale": 3},
        ],
        "uid": {"type": "string", "logicalType": "uuid"},
        "named": {
            "type": "long",
            "logicalType": "timestamp-millis",
            "connect.name": "org.apache.kafka.connect.data.Timestamp",
        },
        "tags": {"type": "map", "values": {"type": "array", "items": "int"}},
        "kind": {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        "either": ["null", "string", "long"],
    }
    schema = {"type": "record", "name": "T", "fields": [{"name": name, "type": type_} for name, type_ in types.items()]}
    pipeline = PlainPipeline(tmp_path, {"avro": registry(tmp_path, _1=schema)}, {"mode": "append"})
    plain = {**schema, "fields": [{"name": n, "type": "long" if n in ("moment", "local", "fine", "named") else t}
                                  for n, t in types.items()]}  # fmt: skip
    value = {"moment": 1, "local": 2, "fine": 3, "day": 19000, "price": Decimal("-1.250"), "uid": "u", "named": 4,
             "tags": {"a": [1, 2]}, "kind": "B", "either": 7}  # fmt: skip

    pipeline.run(plain_batch([(None, encoded(plain, value, 1))] * 3))

    assert pipeline.types == {
        "moment": "TIMESTAMP(6) WITH LOCAL TIME ZONE", "local": "TIMESTAMP(3)",
        "fine": "TIMESTAMP(9) WITH LOCAL TIME ZONE", "day": "DATE",
        "price": "DECIMAL(8, 3)", "uid": "STRING", "named": "TIMESTAMP(3)",
        "tags": "MAP<STRING NOT NULL, ARRAY<INT>>", "kind": "STRING", "either": "STRING",
    }  # fmt: skip
    row = pipeline.rows()[0]
    assert (row["price"], row["tags"], row["kind"], row["either"]) == (Decimal("-1.250"), [("a", [1, 2])], "B", "7")


@pytest.mark.parametrize("together", [True, False])
def test_a_text_in_a_column_of_bytes_is_no_base64(tmp_path: Path, together: bool) -> None:
    """Avro has bytes of its own, so the text goes to quarantine, also if it could be base64."""
    schemas = [
        {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}, {"name": "v", "type": type_}]}
        for type_ in ("bytes", "string")
    ]
    pipeline = PlainPipeline(tmp_path, {"avro": registry(tmp_path, _1=schemas[0], _2=schemas[1])}, {"mode": "append"})
    values = [encoded(schemas[0], {"id": n, "v": b"\xff"}, 1) for n in range(3)]
    values.append(encoded(schemas[1], {"id": 3, "v": "abcd"}, 2))
    batches = [plain_batch([(None, v)], n) for n, v in enumerate(values)]
    pipeline.run(*([plain_batch([(None, v) for v in values])] if together else batches))
    assert pipeline.rows("id", "v") == [(n, b"\xff") for n in range(3)]
    assert pipeline.bad == {3: 'column v BYTES: string "abcd" is text, not bytes'}


def test_a_record_that_holds_itself_is_a_row_with_text(tmp_path: Path) -> None:
    node = {
        "type": "record",
        "name": "N",
        "fields": [{"name": "id", "type": "int"}, {"name": "next", "type": ["null", "N"]}],
    }
    pipeline = PlainPipeline(tmp_path, {"avro": registry(tmp_path, _1=node)}, {"mode": "append"})

    pipeline.run(plain_batch([(None, encoded(node, {"id": 1, "next": {"id": 2, "next": None}}, 1))]))

    assert pipeline.rows() == [{"id": 1, "next": '{"id":2,"next":null}'}]


def test_what_cannot_be_read_goes_to_quarantine_with_a_reason(tmp_path: Path) -> None:
    form = {"avro": registry(tmp_path, _1=ROW, _2="string", _3={"type": "record", "name": "E", "fields": []})}
    pipeline = PlainPipeline(tmp_path, form, {"mode": "append"})
    good = encoded(ROW, {"id": 1, "v": "abc"}, 1)
    values = [
        good,
        good[:-1],
        good + b"\x00",
        b"",
        b'{"a":1}',
        encoded("string", "x", 2),
        b"\x00\x00\x00\x00\x09\x02",
        b"zzzzz",
    ]

    pipeline.run(plain_batch([(None, value) for value in values]))

    assert pipeline.rows("id") == [(1,)]
    starts = ["value cannot be read as Avro of schema 1", "value cannot be read as Avro of schema 1", "value is empty",
              "value is JSON, not Avro: use format json", "the schema of the value is not a record",
              "schema 9 is not in registry.file", "value names no schema"]  # fmt: skip
    assert [reason.startswith(start) for reason, start in zip(pipeline.bad.values(), starts, strict=True)] == [True] * 7


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "give exactly one of `registry` and `schema_file`"),
        ({"schema_file": "a", "registry": {"file": "b"}}, "give exactly one of"),
        ({"schema_file": "a", "key_format": "avro"}, "keys in Avro name their schema in a `registry`"),
        ({"schema_file": "a", "schema": "b"}, "Extra inputs are not permitted"),
        ({"registry": {}}, "give exactly one of `url` and `file`"),
    ],
)
def test_options_that_do_not_go_together_are_refused(tmp_path: Path, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        PlainPipeline(tmp_path, {"avro": options})


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(st.data())
def test_any_value_is_stored_as_fastavro_reads_it(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    schema, values = data.draw(schemas())
    rows = data.draw(st.lists(values, min_size=1, max_size=6))
    settings_ = RegistrySettings(file=str(tmp_path_factory.mktemp("any") / "s.json"))
    Path(settings_.file or "").write_text(json.dumps({"schemas": {"1": schema}}))
    decoder = PlainDecoder(partial(AvroValues, schemas=AvroSchemas(settings_)), AvroPlainOptions(), ValueForms())
    batch = plain_batch([(None, encoded(schema, row, 1)) for row in rows])

    (seen,) = decoder.decode(batch, {}).observations
    columns = tuple((c.name, c.type) for c in seen.columns if c.type is not None)
    decoded = decoder.decode(batch, {SOURCE: DecodeTarget(columns, (), on_change="fail")})

    assert decoded.quarantine == ()
    stored = decoded.changes[0].rows.to_pylist()
    parsed = fastavro.parse_schema(schema)
    for found, record in zip(stored, batch.column("value").to_pylist(), strict=True):
        expected: Any = fastavro.schemaless_reader(io.BytesIO(record[5:]), parsed, None)
        assert {n: _plain(found[n]) for n, _ in columns} == {n: _expected(expected[n], t, found[n]) for n, t in columns}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return {name: _plain(item) for name, item in value.items()} if isinstance(value, dict) else value


def _expected(value: Any, t: Any, found: Any) -> Any:
    """What a column of a type has of a value."""
    text = str(t)
    if value is None:
        return None
    if text == "STRING" and not isinstance(value, str):
        return (
            found if json.loads(found) == json.loads(json.dumps(value, default=str)) else json.dumps(value, default=str)
        )
    if text.startswith("ARRAY"):
        return [_expected(item, t.element, got) for item, got in zip(value, found, strict=True)]
    if text.startswith("MAP"):
        return [[key, _expected(item, t.element or t.value, dict(found)[key])] for key, item in value.items()]
    if text.startswith("ROW"):
        return {f.name: _expected(value[f.name], f.type, found[f.name]) for f in t.fields}
    return repr(value) if isinstance(value, float) else value


def test_columns_of_the_target_alone_matter(tmp_path: Path) -> None:
    settings_ = RegistrySettings(file=str(tmp_path / "s.json"))
    (tmp_path / "s.json").write_text(json.dumps({"schemas": {"1": ROW}}))
    decoder = PlainDecoder(partial(AvroValues, schemas=AvroSchemas(settings_)), AvroPlainOptions(), ValueForms())
    target = DecodeTarget((("v", parse_type("STRING")),), (), on_change="fail")

    decoded = decoder.decode(plain_batch([(None, encoded(ROW, {"id": 1, "v": "a"}, 1))]), {SOURCE: target})

    assert decoded.changes[0].rows.column("v") == pa.chunked_array([["a"]])
