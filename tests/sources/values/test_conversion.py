"""Whole columns convert like their values one by one, also when Arrow hands over slices."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from paimon_table.types import Root, arrow_type, parse_type
from sources.values.conversion import convert_column, convert_values
from sources.values.encodings import AUTO, Encoding, Kind
from sources.values.value_forms import ValueForms

ENCODINGS = [
    AUTO,
    Encoding(Kind.BYTES),
    Encoding(Kind.FORMATTED),
    Encoding(Kind.UNSIGNED),
    *(Encoding(Kind.DECIMAL, scale=scale) for scale in (0, 2, 5)),
    Encoding(Kind.DATE),
    *(Encoding(kind, unit=unit) for kind in (Kind.TIME, Kind.TIMESTAMP) for unit in (1000, 1_000_000, 1_000_000_000)),
]
TYPES = [
    parse_type(text)
    for text in [
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL(5,2)",
        "DECIMAL(18,0)",
        "DECIMAL(20,2)",
        "DECIMAL(38,5)",
        "DECIMAL(38,38)",
        "CHAR(3)",
        "VARCHAR(4)",
        "STRING",
        "BINARY(2)",
        "BYTES",
        "DATE",
        "TIME(0)",
        "TIME(3)",
        "TIME(6)",
        "TIMESTAMP(0)",
        "TIMESTAMP(3)",
        "TIMESTAMP(5)",
        "TIMESTAMP(6)",
        "TIMESTAMP(9)",
        "TIMESTAMP_LTZ(3)",
        "TIMESTAMP_LTZ(6)",
        "TIMESTAMP_LTZ(9)",
        "ARRAY<INT>",
        "ARRAY<DECIMAL(5,2)>",
    ]
]
OPTIONS = [
    ValueForms(decimal_format=form, infinity=infinity, time_precision=precision, binary_format=binary)
    for form in ("auto", "auto-base64", "auto-text", "base64", "text")
    for infinity in ("extreme", "null", "quarantine")
    for precision in ("adaptive", "connect")
    for binary in ("base64", "hex")
]
LIMITS = [n for bits in (7, 15, 31, 63) for n in ((1 << bits) - 1, -(1 << bits))]
INFINITE = [9_223_372_036_825_200_000, -9_223_372_036_832_400_000, 2_146_033_979, -622_191_234, -625_821_272]
INTEGERS = st.sampled_from([*LIMITS, *INFINITE, 0, 86_400_000, 10**17, -(10**18)]) | st.integers(
    -(1 << 63), (1 << 63) - 1
)
STRINGS = st.text(max_size=5) | st.sampled_from(
    [
        "AA==",
        "AQ==",
        "/w==",
        "AeJA",
        "/////////////////",
        "A/016215eo+sZ0UV",
        "SztMqFqGxHoJiiI//////w==",
        "=",
        "==",
        "A===",
        "AA=A",
        "1234",
        "12345678",
        "1.5",
        "-2",
        "1e3",
        "12.345",
        "infinity",
        "-infinity",
        "2024-02-29",
        "2024-02-29T12:34:56Z",
        "2024-02-29T12:34:56.7Z",
        "2024-02-29T12:34:56.789012Z",
        "true",
        "2024-02-29T12:34:56.7890123Z",
        "2024-02-29T12:34:56",
        "2024-02-29T12:34:56+02:00",
        "9999-12-31T23:59:59.999999Z",
        "2262-04-12T00:00:00Z",
        "2400-01-01T00:00:00Z",
        "1600-01-01T00:00:00Z",
        "-0043-03-15",
        "0001-01-01T00:00:00Z",
        "NaN",
        "Infinity",
        "12:00",
        "23:59:59.999",
    ]
)
ARROW: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), INTEGERS),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.string(), STRINGS),
    (pa.bool_(), st.booleans()),
    (pa.decimal256(76, 2), st.integers(-(10**12), 10**12).map(lambda n: Decimal(n) / 100)),
    (pa.list_(pa.int64()), st.lists(INTEGERS | st.none(), max_size=3)),
    (pa.list_(pa.string()), st.lists(STRINGS | st.none(), max_size=3)),
]


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_columns_convert_like_their_values(data: st.DataObject) -> None:
    form, values = data.draw(st.sampled_from(ARROW))
    encoding, target = data.draw(st.sampled_from(ENCODINGS)), data.draw(st.sampled_from(TYPES))
    assume(not pa.types.is_decimal(form) or target.root is Root.DECIMAL)
    options = data.draw(st.sampled_from(OPTIONS))
    column = data.draw(st.lists(values | st.none(), max_size=12))
    start = data.draw(st.integers(0, len(column)))
    if pa.types.is_nested(form):
        encoding = Encoding(Kind.ARRAY, element=encoding)

    whole = convert_column(pa.array(column, form).slice(start), encoding, target, options)
    single = convert_values(column[start:], encoding, target, options)

    assert whole.values.type == arrow_type(target)
    assert _integers(whole.values).equals(_integers(single.values))
    assert whole.problems.keys() == single.problems.keys()


def _integers(array: pa.Array) -> pa.Array:
    """Comparable arrays: temporal values as integers, floats as bits."""
    if pa.types.is_temporal(array.type):
        return array.view(pa.int64() if array.type.bit_width == 64 else pa.int32())
    return array


@pytest.mark.parametrize(
    ("column", "target", "reason"),
    [
        ([1 << 31], "INT", "number 2147483648 is out of the range of INT"),
        (["abcde"], "VARCHAR(4)", "string of 5 characters is longer than VARCHAR(4)"),
        (["AQID"], "BINARY(2)", "3 bytes are longer than BINARY(2)"),
        ([86_400_000], "TIME(3)", "time 24:00:00 is out of the range of TIME(3)"),
        ([1_500], "TIMESTAMP(0)", "timestamp 1970-01-01T00:00:01.5 is finer than TIMESTAMP(0)"),
        (["2024-02-29T00:00:00"], "TIMESTAMP_LTZ(6)", "has no time zone"),
        ([[1, 300]], "ARRAY<TINYINT>", "number 300 is out of the range of TINYINT"),
        ([[1, None]], "ARRAY<INT NOT NULL>", "NULL inside a value whose elements are INT NOT NULL"),
        (["12.345"], "DECIMAL(10, 2)", "has more fraction digits than DECIMAL(10, 2)"),
    ],
)
def test_reasons_name_value_and_type(column: list[Any], target: str, reason: str) -> None:
    converted = convert_column(pa.array(column), AUTO, parse_type(target), ValueForms())

    assert reason in converted.problems[0]
    assert converted.values.null_count == 1
