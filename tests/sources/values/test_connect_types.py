"""Every Kafka Connect and Debezium type has its Paimon type and encoding."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.errors import MalformedRecord
from paimon_table.types import DataType, Root, parse_type
from sources.values.connect_types import struct_columns
from sources.values.conversion import convert_column
from sources.values.encodings import AUTO
from sources.values.json_values import Unconvertible
from sources.values.scalar_conversion import convert_value
from sources.values.value_forms import ValueForms

DECIMAL = "org.apache.kafka.connect.data.Decimal"
POINT = {
    "type": "struct",
    "name": "io.debezium.data.geometry.Point",
    "fields": [
        {"type": "double", "field": "x"},
        {"type": "double", "field": "y"},
        {"type": "bytes", "optional": True, "field": "wkb"},
        {"type": "int32", "optional": True, "field": "srid"},
    ],
}


def time(name: str, primitive: str) -> dict[str, Any]:
    return {"type": primitive, "name": f"io.debezium.time.{name}"}


def decimal(**parameters: str) -> dict[str, Any]:
    return {"type": "bytes", "name": DECIMAL, "parameters": {k.replace("_", "."): v for k, v in parameters.items()}}


def number(**parameters: str) -> dict[str, Any]:
    return {"type": "float64", "name": "decimal", "parameters": parameters}


def unsigned(source_type: str) -> dict[str, Any]:
    return {"type": "int64", "parameters": {"__debezium.source.column.type": source_type}}


CASES: list[tuple[dict[str, Any], str, Any, Any]] = [
    ({"type": "int8"}, "TINYINT", -128, -128),
    ({"type": "int16"}, "SMALLINT", 7, 7),
    ({"type": "int32"}, "INT", 7, 7),
    ({"type": "int64"}, "BIGINT", 9007199254740993, 9007199254740993),
    ({"type": "float"}, "FLOAT", 1.5, 1.5),
    ({"type": "double"}, "DOUBLE", "-Infinity", float("-inf")),
    ({"type": "boolean"}, "BOOLEAN", True, True),
    ({"type": "string", "name": "io.debezium.data.Json"}, "STRING", '{"a": 1}', '{"a": 1}'),
    ({"type": "bytes"}, "BYTES", "3q2+7w==", b"\xde\xad\xbe\xef"),
    ({"type": "bytes", "name": "io.debezium.data.Bits"}, "BYTES", "qg==", b"\xaa"),
    (decimal(scale="2", connect_decimal_precision="10"), "DECIMAL(10, 2)", "AeJA", "1234.56"),
    (decimal(scale="2"), "DECIMAL(38, 2)", "nA==", "-1.00"),
    (decimal(scale="4", connect_decimal_precision="2"), "DECIMAL(4, 4)", "AQ==", "0.0001"),
    (decimal(scale="-2", connect_decimal_precision="5"), "DECIMAL(7, 0)", "AQ==", "100"),
    (decimal(scale="5", connect_decimal_precision="60"), "STRING", "BMsv", "3.14159"),
    (
        {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal", "fields": []},
        "STRING",
        {"scale": 5, "value": "BMsv"},
        "3.14159",
    ),
    (time("Date", "int32"), "DATE", 19782, 19782),
    ({"type": "int32", "name": "org.apache.kafka.connect.data.Date"}, "DATE", -1, -1),
    (time("IsoDate", "string"), "DATE", "2024-02-29Z", 19782),
    (time("Time", "int32"), "TIME(3)", 3723004, 3723004),
    ({"type": "int32", "name": "org.apache.kafka.connect.data.Time"}, "TIME(3)", 1, 1),
    (time("MicroTime", "int64"), "STRING", 86399123456, "23:59:59.123456"),
    (time("NanoTime", "int64"), "STRING", 86399123456789, "23:59:59.123456789"),
    (time("MicroTime", "int64"), "STRING", -3020399000000, "-838:59:59"),
    (time("MicroTime", "int64"), "STRING", 3020399000000, "838:59:59"),
    (time("MicroTime", "int64"), "STRING", -1, "-00:00:00.000001"),
    (unsigned("BIGINT UNSIGNED"), "DECIMAL(20, 0)", -1, "18446744073709551615"),
    (unsigned("bigint unsigned zerofill"), "DECIMAL(20, 0)", -(1 << 63), "9223372036854775808"),
    (unsigned("BIGINT UNSIGNED"), "DECIMAL(20, 0)", (1 << 63) - 1, "9223372036854775807"),
    (unsigned("BIGINT"), "BIGINT", -1, -1),
    (time("ZonedTime", "string"), "STRING", "08:11:12Z", "08:11:12Z"),
    (time("IsoTime", "string"), "STRING", "08:11:12Z", "08:11:12Z"),
    (time("Timestamp", "int64"), "TIMESTAMP(3)", -1, -1),
    ({"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"}, "TIMESTAMP(3)", 5, 5),
    (time("MicroTimestamp", "int64"), "TIMESTAMP(6)", 1709210096789012, 1709210096789012),
    (time("NanoTimestamp", "int64"), "TIMESTAMP(9)", 1709210096789012345, 1709210096789012345),
    (time("IsoTimestamp", "string"), "TIMESTAMP(6)", "1970-01-01T00:00:01Z", 1_000_000),
    (time("ZonedTimestamp", "string"), "TIMESTAMP_LTZ(6)", "1970-01-01T00:00:00.000001Z", 1),
    (time("MicroDuration", "int64"), "BIGINT", 37091106700000, 37091106700000),
    (time("NanoDuration", "int64"), "BIGINT", 5, 5),
    (time("Interval", "string"), "STRING", "P1Y", "P1Y"),
    (time("Year", "int32"), "INT", 2024, 2024),
    ({"type": "array", "items": {"type": "int32", "optional": True}}, "ARRAY<INT>", [1, None], [1, None]),
    (
        {"type": "array", "items": decimal(scale="2", connect_decimal_precision="6")},
        "ARRAY<DECIMAL(6, 2)>",
        ["fQ==", None],
        [Decimal("1.25"), None],
    ),
    (
        {"type": "map", "keys": {"type": "string"}, "values": {"type": "int64"}},
        "MAP<STRING NOT NULL, BIGINT>",
        {"a": 1},
        [("a", 1)],
    ),
    (
        {"type": "map", "keys": {"type": "int16"}, "values": {"type": "double"}},
        "MAP<SMALLINT NOT NULL, DOUBLE>",
        [[1, 2.5]],
        [(1, 2.5)],
    ),
    (
        POINT,
        "ROW<x DOUBLE, y DOUBLE, wkb BYTES, srid INT>",
        {"x": 1.0, "y": 2.0, "wkb": "AQ=="},
        (1.0, 2.0, b"\1", None),
    ),
    ({"type": "string", "name": "com.example.Unknown"}, "STRING", "x", "x"),
    ({"type": "bytes"}, "BYTES", "\\x00ff", b"\x00\xff"),
    ({"type": "json"}, "STRING", {"a": [1, None]}, '{"a":[1,null]}'),
    ({"type": "struct", "fields": []}, "STRING", {"type": "Point"}, '{"type":"Point"}'),
    (number(precision="10", scale="2"), "DECIMAL(10, 2)", 1.5, "1.50"),
    (number(precision="0", scale="0"), "STRING", 1.5, "1.5"),
    (number(precision="50", scale="2"), "STRING", 1.5, "1.5"),
]


@pytest.mark.parametrize(("schema", "paimon", "value", "stored"), CASES)
def test_types_and_values(schema: dict[str, Any], paimon: str, value: Any, stored: Any) -> None:
    (column,) = struct_columns({"type": "struct", "fields": [{**schema, "optional": True, "field": "c"}]})

    converted = convert_value(value, column.encoding, column.type, ValueForms())

    assert str(column.type) == str(parse_type(paimon))
    assert column.type.nullable
    assert (str(converted) if paimon.startswith("DECIMAL") else converted) == stored


@pytest.mark.parametrize("schema", [{}, {"fields": [{"type": "int32"}]}, {"fields": [{"type": "what", "field": "c"}]}])
def test_what_is_no_schema_is_named(schema: dict[str, Any]) -> None:
    with pytest.raises(MalformedRecord, match="embedded schema"):
        struct_columns(schema)


LARGEST_DAY, SMALLEST_DAY = (1 << 31) - 1, -(1 << 31)
INFINITE_DAYS = [
    *((days, LARGEST_DAY) for days in (-2_147_472_692, 2_146_033_979, -622_191_234, -622_191_233)),
    *((days, SMALLEST_DAY) for days in (-2_147_472_691, -625_821_272, -625_821_271)),
]


@pytest.mark.parametrize(("days", "end"), INFINITE_DAYS)
@pytest.mark.parametrize("is_array", [False, True])
def test_infinite_dates_are_the_ends_of_the_range(days: int, end: int, is_array: bool) -> None:
    date = time("Date", "int32")
    schema = {"type": "array", "items": date} if is_array else date
    (column,) = struct_columns({"type": "struct", "fields": [{**schema, "optional": True, "field": "c"}]})
    real = [2_145_042_905, -2_440_550]

    def stored(infinity: str) -> list[Any]:
        form = pa.array([[v] if is_array else v for v in (days, *real)], column.form)
        converted = convert_column(form, column.encoding, column.type, ValueForms(infinity=infinity))
        dates = converted.values.flatten() if is_array else converted.values
        return [dates.cast(pa.int32()).to_pylist(), list(converted.problems)]

    assert stored("extreme") == [[end, *real], []]
    assert stored("null") == [[None, *real], []]
    assert stored("quarantine") == [real if is_array else [None, *real], [0]]


@pytest.mark.parametrize("number", [1 << 31, 1_704_153_600_000, -62_135_596_800_001, 1_709_210_096_000_000, 10**29])
def test_a_number_beyond_32_bits_is_no_infinite_date(number: int) -> None:
    date = parse_type("DATE")
    with pytest.raises(Unconvertible, match="out of the range of DATE"):
        convert_value(number, AUTO, date, ValueForms())
    if number < 1 << 63:
        converted = convert_column(pa.array([number, 19_782]), AUTO, date, ValueForms())
        assert (list(converted.problems), converted.values.cast(pa.int32()).to_pylist()) == ([0], [None, 19_782])


def test_pairs_with_one_key_are_no_map() -> None:
    target = parse_type("MAP<STRING, INT>")
    assert convert_value([["a", 1], ["b", 2]], AUTO, target, ValueForms()) == [("a", 1), ("b", 2)]
    with pytest.raises(Unconvertible, match="key twice"):
        convert_value([["a", 1], ["a", 2]], AUTO, target, ValueForms())


ISO_DATES = [
    ("+292278994-08-16Z", LARGEST_DAY),
    ("+292278994-08-17Z", LARGEST_DAY),
    ("+5877611-06-21Z", LARGEST_DAY),
    ("+292269055-12-02Z", SMALLEST_DAY),
    ("+292269055-12-03Z", SMALLEST_DAY),
    ("-292275055-05-16Z", SMALLEST_DAY),
    ("-5877611-06-22Z", SMALLEST_DAY),
    ("+5874897-12-31Z", 2_145_042_905),
]


@pytest.mark.parametrize(("text", "days"), ISO_DATES)
def test_infinite_dates_of_mode_isostring(text: str, days: int) -> None:
    field = {"type": "string", "name": "io.debezium.time.IsoDate", "optional": True, "field": "c"}
    (column,) = struct_columns({"type": "struct", "fields": [field]})

    assert convert_value(text, column.encoding, column.type, ValueForms()) == days
    if days in (LARGEST_DAY, SMALLEST_DAY):
        assert convert_value(text, column.encoding, column.type, ValueForms(infinity="null")) is None


INFINITE_MOMENTS = [(9_223_372_036_825_200_000, (1 << 63) - 1), (-9_223_372_036_832_400_000, -(1 << 63))]


@pytest.mark.parametrize(("millis", "micros"), INFINITE_MOMENTS)
@pytest.mark.parametrize("name", ["io.debezium.time.Timestamp", "org.apache.kafka.connect.data.Timestamp"])
@pytest.mark.parametrize("digits", [3, 6])
def test_infinite_moments_in_milliseconds_are_those_in_microseconds(
    millis: int, micros: int, name: str, digits: int
) -> None:
    field = {"type": "int64", "name": name, "optional": True, "field": "c"}
    (column,) = struct_columns({"type": "struct", "fields": [field]})
    target, end = DataType(Root.TIMESTAMP, precision=digits), micros // 1000 if digits == 3 else micros
    real = 253_402_300_799_000
    stored_real = real if digits == 3 else 1000 * real

    def stored(infinity: str) -> list[Any]:
        values = pa.array([millis, real], pa.int64())
        converted = convert_column(values, column.encoding, target, ValueForms(infinity=infinity))
        return [converted.values.cast(pa.int64()).to_pylist(), list(converted.problems)]

    assert stored("extreme") == [[end, stored_real], []]
    assert stored("null") == [[None, stored_real], []]
    assert stored("quarantine") == [[None, stored_real], [0]]
    assert convert_value(millis, column.encoding, target, ValueForms()) == end


@pytest.mark.parametrize("infinity", ["extreme", "null"])
@pytest.mark.parametrize(
    ("text", "end"), [("+292278994-08-16T23:00:00Z", (1 << 63) - 1), ("-292275055-05-16T23:00:00Z", -(1 << 63))]
)
def test_infinite_moments_of_mode_isostring(text: str, end: int, infinity: str) -> None:
    field = {"type": "string", "name": "io.debezium.time.IsoTimestamp", "optional": True, "field": "c"}
    (column,) = struct_columns({"type": "struct", "fields": [field]})
    target = DataType(Root.TIMESTAMP, precision=6)
    found = convert_value(text, column.encoding, target, ValueForms(infinity=infinity))
    assert found == (end if infinity == "extreme" else None)


@pytest.mark.parametrize("binary_format", ["base64", "base64-url-safe", "hex"])
def test_bytes_of_a_schema_are_base64_whatever_the_connector_writes_as_texts(binary_format: str) -> None:
    fields = [{"type": kind, "optional": True, "field": kind} for kind in ("bytes", "string")]
    of_bytes, of_texts = struct_columns({"type": "struct", "fields": fields})
    forms, target = ValueForms(binary_format=binary_format), parse_type("BYTES")

    read = convert_column(pa.array(["AAAA", "BQ=="]), of_bytes.encoding, target, forms)
    assert (read.values.to_pylist(), list(read.problems)) == ([b"\0\0\0", b"\5"], [])
    assert convert_value("AAAA", of_bytes.encoding, target, forms) == b"\0\0\0"
    text = convert_value("AAAA", of_texts.encoding, target, forms)
    assert text == (b"\xaa\xaa" if binary_format == "hex" else b"\0\0\0")
