"""Columns of all kinds that Debezium knows, by the same event in JSON with its schema and in Avro."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.types import parse_type
from sources.changes import RECORD_SCHEMA, SourceTable
from sources.debezium_json.decoder import DebeziumJsonDecoder
from sources.decode_target import DecodeTarget
from tests.support.avro_topics import AvroTopics
from tests.support.replay import Replay, replay_batches, same

TABLE = SourceTable("shop.db.t", "db", None, "t")
Field = tuple[Mapping[str, Any], Sequence[Any]]
"""A Connect schema, and values in the form of JsonConverter."""


def b64(*data: int) -> str:
    return base64.b64encode(bytes(data)).decode()


def of(kind: str, name: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": kind, "optional": True} | ({} if name is None else {"name": name, "version": 1}) | more


def decimal(scale: int, precision: int) -> dict[str, Any]:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return of("bytes", "org.apache.kafka.connect.data.Decimal", parameters=parameters)


VARIABLE = {
    "fields": [
        {"type": "int32", "optional": False, "field": "scale"},
        {"type": "bytes", "optional": False, "field": "value"},
    ]
}
GEOMETRY = {"fields": [of("bytes") | {"field": "wkb", "optional": False}, of("int32") | {"field": "srid"}]}
POINT = {
    "fields": [
        {"type": "double", "optional": False, "field": "x"},
        {"type": "double", "optional": False, "field": "y"},
        of("bytes") | {"field": "wkb"},
        of("int32") | {"field": "srid"},
    ]
}
UNSIGNED: dict[str, Any] = {
    "parameters": {"__debezium.source.column.type": "BIGINT UNSIGNED", "__debezium.source.column.name": "c"}
}

FIELDS: dict[str, Field] = {
    "tinyint": (of("int8"), [1, -128, None]),
    "smallint": (of("int16"), [32767, -32768]),
    "int": (of("int32"), [2**31 - 1, -(2**31)]),
    "bigint": (of("int64"), [2**63 - 1, -(2**63), 0]),
    "bigint unsigned long": (of("int64", **UNSIGNED), [-1, 5, 2**63 - 1]),
    "bigint unsigned precise": (decimal(0, 20), [b64(0, *[255] * 8), b64(5)]),
    "boolean": (of("boolean"), [True, False, None]),
    "float": (of("float"), [1.1, -3.5e38 / 2, 1e-40]),
    "double": (of("double"), [0.1, 1e300, -0.0]),
    "decimal": (decimal(2, 10), [b64(0x04, 0xD2), b64(0xFF), b64(0), None]),
    "decimal of negative scale": (decimal(-2, 5), [b64(7)]),
    "decimal of 38 digits": (decimal(10, 38), [b64(*(10**38 - 1).to_bytes(16, "big")), b64(0xFF, *[0] * 14)]),
    "decimal beyond 38 digits": (decimal(0, 65), [b64(*(10**60).to_bytes(26, "big"))]),
    "variable decimal": (
        of("struct", "io.debezium.data.VariableScaleDecimal", **VARIABLE),
        [{"scale": 2, "value": b64(1, 0)}, {"scale": -2, "value": "AQ=="}, {"scale": 37, "value": b64(9)}, None],
    ),
    "date": (of("int32", "io.debezium.time.Date"), [0, -719_162, 20_000]),
    "connect date": (of("int32", "org.apache.kafka.connect.data.Date"), [1]),
    "time": (of("int32", "io.debezium.time.Time"), [0, 86_399_999]),
    "connect time": (of("int32", "org.apache.kafka.connect.data.Time"), [1]),
    "micro time": (of("int64", "io.debezium.time.MicroTime"), [3_661_000_001, -3_020_399_000_000, 86_400_000_000]),
    "nano time": (of("int64", "io.debezium.time.NanoTime"), [1]),
    "timestamp": (of("int64", "io.debezium.time.Timestamp"), [1_476_497_715_000, -1]),
    "connect timestamp": (of("int64", "org.apache.kafka.connect.data.Timestamp"), [1_476_497_715_000]),
    "micro timestamp": (of("int64", "io.debezium.time.MicroTimestamp"), [1_476_497_715_000_001, 2**63 - 1, -(2**63)]),
    "nano timestamp": (of("int64", "io.debezium.time.NanoTimestamp"), [1_476_497_715_000_000_001]),
    "iso timestamp": (of("string", "io.debezium.time.IsoTimestamp"), ["2024-02-29T12:34:56.1234567"]),
    "zoned timestamp": (
        of("string", "io.debezium.time.ZonedTimestamp"),
        ["2016-10-15T02:15:15Z", "2024-02-29T12:34:56.123456+03:00", "infinity"],
    ),
    "zoned timestamp, fine": (of("string", "io.debezium.time.ZonedTimestamp"), ["2024-02-29T12:34:56.1234567Z"]),
    "zoned time": (of("string", "io.debezium.time.ZonedTime"), ["08:11:12Z"]),
    "interval": (of("int64", "io.debezium.time.MicroDuration"), [37_091_106_700_000]),
    "year": (of("int32", "io.debezium.time.Year"), [1901, 2155, 0]),
    "enum": (of("string", "io.debezium.data.Enum", parameters={"allowed": "a,b"}), ["a", "", None]),
    "set": (of("string", "io.debezium.data.EnumSet", parameters={"allowed": "a,b"}), ["a,b", ""]),
    "json": (of("string", "io.debezium.data.Json"), ['{"a": [1, "ü"]}', "null"]),
    "xml": (of("string", "io.debezium.data.Xml"), ["<a/>"]),
    "uuid": (of("string", "io.debezium.data.Uuid"), ["6c3d1b6e-0000-4000-8000-000000000001"]),
    "ltree": (of("string", "io.debezium.data.Ltree"), ["a.b"]),
    "bits": (of("bytes", "io.debezium.data.Bits", parameters={"length": "12"}), [b64(0xFF, 0x0F), b64(0), None]),
    "bit(1)": (of("boolean"), [True]),
    "bytes": (of("bytes"), [b64(0, 255, 13, 10), "", None]),
    "geometry": (
        of("struct", "io.debezium.data.geometry.Geometry", **GEOMETRY),
        [{"wkb": b64(1, 2), "srid": 4326}, {"wkb": b64(), "srid": None}, None],
    ),
    "point": (
        of("struct", "io.debezium.data.geometry.Point", **POINT), [{"x": 1.5, "y": -2.5, "wkb": b64(1), "srid": 1}]
    ),
    "text array": (of("array", items=of("string")), [["a", None, ""], [], None]),
    "int array": (of("array", items=of("int32")), [[1, None, -5], [2] * 70]),
    "decimal array": (of("array", items=decimal(2, 6)), [[b64(1), None], [b64(0xFF, 0x38)]]),
    "bytea array": (of("array", items=of("bytes")), [[b64(1, 2), ""], None]),
    "array of arrays": (of("array", items=of("array", items=of("int64"))), [[[1], [], None], []]),
    "array of structs": (
        of("array", items=of("struct", "p.Point", **POINT)), [[{"x": 1.0, "y": 2.0, "wkb": None, "srid": 3}, None]]
    ),
    "map": (of("map", keys={"type": "string"}, values=of("string")), [{"a": "1", "b": None}, {}, None]),
    "map of numbers": (of("map", keys={"type": "string"}, values=of("int64")), [{"a": 1, "b": 2**40}]),
    "hidden text": (of("string"), ["__debezium_unavailable_value", "x"]),
    "hidden json": (of("string", "io.debezium.data.Json"), ['{"key":"__debezium_unavailable_value"}', "{}"]),
    "hidden bytes": (of("bytes"), [base64.b64encode(b"__debezium_unavailable_value").decode(), b64(1)]),
    "hidden array": (of("array", items=of("string")), [["__debezium_unavailable_value"], ["x"]]),
    "hidden numbers": (of("array", items=of("int32")), [[*b"__debezium_unavailable_value"], [1]]),
    "hidden map": (
        of("map", keys={"type": "string"}, values=of("string")),
        [{"__debezium_unavailable_value": "__debezium_unavailable_value"}, {"a": "b"}],
    ),
    "hidden bytes array": (
        of("array", items=of("bytes")), [[base64.b64encode(b"__debezium_unavailable_value").decode()], [b64(1)]]
    ),
    "text with default": (of("string", default="x"), [None, "", "y"]),
    "decimal with default": (decimal(2, 10) | {"default": "AA=="}, [None, b64(1)]),
    "number with default": (of("int32", default=7), [None, 0, 7]),
}  # fmt: skip
DECLARED = ["STRING", "BYTES", "BIGINT", "DOUBLE", "DECIMAL(30, 4)", "TIMESTAMP(6)", "DATE", "BOOLEAN", "VARCHAR(3)"]


def events(schema: Mapping[str, Any], values: Sequence[Any], op: str = "c") -> list[dict[str, Any]]:
    """One event per value, with its schema embedded."""
    row = {"type": "struct", "name": "shop.db.t.Value", "optional": True, "fields": [
        {"type": "int32", "optional": False, "field": "id"}, {**schema, "field": "c"},
    ]}  # fmt: skip
    source = {"type": "struct", "name": "Source", "optional": False, "fields": [
        {"type": "int64", "optional": False, "field": "ts_ms"},
        {"type": "string", "optional": False, "field": "db"}, {"type": "string", "optional": False, "field": "table"},
    ]}  # fmt: skip
    envelope = {"type": "struct", "name": "shop.db.t.Envelope", "fields": [
        {**row, "field": "before"}, {**row, "field": "after"}, {**source, "field": "source"},
        {"type": "string", "optional": False, "field": "op"},
    ]}  # fmt: skip
    key_schema = {"type": "struct", "name": "shop.db.t.Key", "fields": row["fields"][:1]}  # type: ignore[index]
    return [
        {
            "topic": TABLE.topic, "partition": 0, "offset": offset, "timestamp": 0,
            "key": json.dumps({"schema": key_schema, "payload": {"id": offset}}).encode(),
            "value": json.dumps({"schema": envelope, "payload": {
                "before": None, "after": {"id": offset, "c": value},
                "source": {"ts_ms": 5, "db": "db", "table": "t"}, "op": op,
            }}).encode(),
        }
        for offset, value in enumerate(values)
    ]  # fmt: skip


def decoded(batch: pa.RecordBatch, decoder: Any, declared: str | None = None) -> Replay:
    types = {} if declared is None else {"t": {"c": parse_type(declared)}}
    return replay_batches([batch], types, decoder=decoder)


def assert_same(avro: Replay, plain: Replay) -> None:
    assert avro.targets[TABLE] == plain.targets[TABLE]
    assert [same(row) for row in avro.bags.get("t", [])] == [same(row) for row in plain.bags.get("t", [])]
    told = [[(r.offset, r.reason) for d in replay.decoded for r in d.quarantine] for replay in (avro, plain)]
    assert [place for place, _ in told[0]] == [place for place, _ in told[1]]
    for (_, left), (_, right) in zip(*told, strict=True):
        assert left.partition(":")[0] == right.partition(":")[0]


@pytest.mark.parametrize("name", FIELDS)
def test_a_column_of_each_kind_has_the_type_and_the_values_of_its_json_form(name: str, tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pylist(events(*FIELDS[name]), schema=RECORD_SCHEMA)
    topics = AvroTopics()
    in_avro = topics.batch(batch)

    avro, plain = decoded(in_avro, topics.decoder(tmp_path)), decoded(batch, DebeziumJsonDecoder())

    assert_same(avro, plain)
    assert not any(d.quarantine for d in avro.decoded)


@pytest.mark.slow
@pytest.mark.parametrize("declared", DECLARED)
def test_a_declared_type_takes_of_each_kind_what_it_takes_of_json(declared: str, tmp_path: Path) -> None:
    target = DecodeTarget((("id", parse_type("INT")), ("c", parse_type(declared))), ("id",), declared=frozenset("c"))
    # The text of a floating point number is what the writer of the JSON has chosen.
    chosen_by_writer = {"float", "double"} if declared == "STRING" else set()
    for name, field in FIELDS.items():
        if name in chosen_by_writer:
            continue
        batch = pa.RecordBatch.from_pylist(events(*field), schema=RECORD_SCHEMA)
        topics = AvroTopics()
        in_avro = topics.batch(batch)

        avro = topics.decoder(tmp_path).decode(in_avro, {TABLE: target})
        plain = DebeziumJsonDecoder().decode(batch, {TABLE: target})

        assert [c.rows for c in avro.changes] == [c.rows for c in plain.changes], name
        assert [row.offset for row in avro.quarantine] == [row.offset for row in plain.quarantine], name
        assert avro.observations == plain.observations, name


LOGICAL: dict[str, tuple[Any, Any, str, Any]] = {
    "date": ("int", 20_000, "DATE", 20_000),
    "time-millis": ("int", 86_399_999, "TIME(3)", 86_399_999),
    "time-micros": ("long", 3_661_000_001, "STRING", "01:01:01.000001"),
    "timestamp-millis": ("long", 1_476_497_715_000, "TIMESTAMP(3)", 1_476_497_715_000),
    "timestamp-micros": ("long", 1_476_497_715_000_001, "TIMESTAMP(6)", 1_476_497_715_000_001),
    "timestamp-nanos": ("long", 1_476_497_715_000_000_001, "TIMESTAMP(9)", 1_476_497_715_000_000_001),
    "local-timestamp-micros": ("long", -1, "TIMESTAMP(6)", -1),
    "uuid": ("string", "6c3d1b6e-0000-4000-8000-000000000001", "STRING", "6c3d1b6e-0000-4000-8000-000000000001"),
    "decimal": ("bytes", b"\xfb\x2e", "DECIMAL(9, 2)", Decimal("-12.34")),
    "unknown": ("long", 7, "BIGINT", 7),
}


@pytest.mark.parametrize("logical", LOGICAL)
@pytest.mark.parametrize("named", [None, "io.debezium.data.Something"])
def test_a_logical_type_of_avro_tells_the_meaning_where_connect_does_not(
    logical: str, named: str | None, tmp_path: Path
) -> None:
    kind, value, expected_type, expected = LOGICAL[logical]
    column = {"type": kind, "logicalType": logical, "precision": 9, "scale": 2}
    column |= {} if named is None else {"connect.name": named}
    row = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "int"}, {"name": "c", "type": column}]}
    schema = {"type": "record", "name": "Envelope", "fields": [
        {"name": "after", "type": row}, {"name": "op", "type": "string"},
    ]}  # fmt: skip
    topics = AvroTopics()
    data = topics.encoded(schema, {"after": {"id": 1, "c": value}, "op": "c"})
    record = {"topic": TABLE.topic, "partition": 0, "offset": 0, "timestamp": 0, "key": b'{"id":1}', "value": data}

    replay = decoded(pa.RecordBatch.from_pylist([record], schema=RECORD_SCHEMA), topics.decoder(tmp_path))

    if named is not None:  # what Connect says wins, and says nothing of a meaning here
        expected_type = {"int": "INT", "long": "BIGINT", "bytes": "BYTES"}.get(kind, "STRING")
        expected = value
    (target,) = replay.targets.values()
    assert target is not None
    assert str(dict(target.columns)["c"]) == expected_type
    assert [row["c"] for row in replay.bags["t"]] == [expected]
