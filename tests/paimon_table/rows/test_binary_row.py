"""BinaryRow bytes: single rows, whole columns, and the order of keys."""

import datetime as dt
import math
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_table.errors import BrokenInvariant, CorruptFile, UnsupportedFeature
from paimon_table.rows.binary_row import (
    comparable_key,
    deserialize_row,
    raw_field,
    raw_fields,
    serialize_row,
    serialize_row_at,
    serialize_rows,
)
from paimon_table.rows.row_words import BLOCK_ROWS
from paimon_table.types import DataType, Root, arrow_type, parse_type
from tests.support.drawn_values import VALUES


@st.composite
def row_sets(draw: st.DrawFn) -> tuple[list[DataType], list[list[Any]]]:
    texts = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=5))
    row = st.tuples(*(st.none() | VALUES[text] for text in texts)).map(list)
    return [parse_type(text) for text in texts], draw(st.lists(row, min_size=1, max_size=8))


@pytest.mark.slow
@given(row_sets())
def test_a_row_comes_back_as_it_was(rows: tuple[list[DataType], list[list[Any]]]) -> None:
    types, values = rows
    for row in values:
        serialized = serialize_row(row, types)

        assert list(deserialize_row(serialized, types)) == row
        assert len(serialized) % 8 == 4


@pytest.mark.slow
@given(row_sets())
def test_a_field_of_many_rows_is_read_as_that_of_each(rows: tuple[list[DataType], list[list[Any]]]) -> None:
    types, values = rows
    serialized = [serialize_row(row, types) for row in values]
    for position, t in enumerate(types):
        assert raw_fields(serialized, position, t) == [raw_field(row, position, t) for row in serialized]
    with pytest.raises(CorruptFile, match="ends early"):
        raw_fields([*serialized, serialized[0][:5]], 0, types[0])


@pytest.mark.slow
@given(row_sets(), st.integers(0, 3), st.integers(1, 4))
def test_columns_give_the_bytes_of_single_rows(
    rows: tuple[list[DataType], list[list[Any]]], skipped: int, chunks: int
) -> None:
    types, values = rows
    padded = [values[0]] * skipped + values
    columns = [
        pa.chunked_array([pa.array([row[i] for row in padded], arrow_type(t)).slice(skipped)] * chunks)
        for i, t in enumerate(types)
    ]

    serialized = serialize_rows(columns, types)

    expected = [serialize_row(row, types) for row in values]
    assert [serialized.row(i) for i in range(len(serialized))] == [row[4:] for row in expected] * chunks
    assert serialize_row_at(columns, types, -1) == expected[-1]


def test_columns_longer_than_a_block_give_the_bytes_of_single_rows() -> None:
    types = [parse_type("STRING"), parse_type("TIMESTAMP(6)"), parse_type("BYTES")]
    count = BLOCK_ROWS + 5
    columns = [
        pa.array(["x" * (i % 23) if i % 5 else None for i in range(count)]),
        pa.array([i if i % 3 else None for i in range(count)], pa.timestamp("us")),
        pa.array([b"12345678" if i % 7 else b"" for i in range(count)]),
    ]

    serialized = serialize_rows(columns, types)

    for i in (0, 1, 2, 3, 5, 7, BLOCK_ROWS - 1, BLOCK_ROWS, count - 1):
        row = ["x" * (i % 23) if i % 5 else None, i if i % 3 else None, b"12345678" if i % 7 else b""]
        assert serialized.row(i) == serialize_row(row, types)[4:]


@pytest.mark.parametrize("text", ["INT", "DECIMAL(10, 2)", "DECIMAL(30, 2)", "TIMESTAMP(6)", "STRING", "BYTES"])
def test_what_arrow_keeps_under_nulls_does_not_reach_the_row(text: str) -> None:
    t = parse_type(text)
    values = {Root.VARCHAR: "some text", Root.VARBINARY: b"some bytes", Root.DECIMAL: Decimal("-12.34")}
    kept = pa.array([values.get(t.root, 1)] * 3, arrow_type(t))
    hidden = pa.Array.from_buffers(kept.type, 3, [pa.py_buffer(b"\x05"), *kept.buffers()[1:]])
    assert hidden.is_null().to_pylist() == [False, True, False]

    rows = serialize_rows([hidden], [t])

    assert rows.row(1) == serialize_row([None], [t])[4:]
    assert rows.row(2) == serialize_row([kept[2].as_py()], [t])[4:]


def test_columns_of_another_arrow_type_are_cast() -> None:
    types = [parse_type("INT"), parse_type("STRING"), parse_type("TIMESTAMP(6)")]
    columns = [pa.array([7]), pa.array(["large enough"], pa.large_string()), pa.array([5], pa.timestamp("ms"))]

    assert serialize_row_at(columns, types, 0) == serialize_row([7, "large enough", 5_000], types)


def test_the_empty_row_has_twelve_zero_bytes() -> None:
    assert serialize_row([], []) == serialize_row_at([], [], 0) == bytes(12)
    assert deserialize_row(bytes(12), []) == comparable_key(bytes(12), []) == ()


def test_dates_beyond_pythons_calendar_come_back_as_numbers() -> None:
    types = [parse_type("DATE"), parse_type("TIMESTAMP(3)"), parse_type("TIMESTAMP(6)")]
    values = (10_000_000, 10**15, -(10**18))

    assert deserialize_row(serialize_row(values, types), types) == values


def test_datetimes_with_an_offset_are_stored_as_instants() -> None:
    types = [parse_type("TIMESTAMP(3) WITH LOCAL TIME ZONE")]
    moment = dt.datetime(2024, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2)))

    assert deserialize_row(serialize_row([moment], types), types) == (dt.datetime(2024, 1, 1, tzinfo=dt.UTC),)


ORDERED: dict[str, list[Any]] = {
    "BOOLEAN": [None, False, True],
    "INT": [None, -(2**31), -1, 0, 1, 256, 2**31 - 1],
    "TINYINT": [None, -128, -1, 0, 127],
    "DOUBLE": [None, -math.inf, -1.5, -0.0, 0.0, 5e-324, 1.0, 1e300, math.inf, math.nan],
    "FLOAT": [None, -math.inf, -1.5, -0.0, 0.0, 1.0, math.inf, math.nan],
    "STRING": [None, "", "B", "a", "a\0", "aa", "b", "z", "é", "\uffff", "\U0001f600"],
    "BYTES": [None, b"", b"\0", b"\x7f", b"\x80", b"\xff", b"\xff\0", b"\xff" * 9],
    "DECIMAL(10, 2)": [None, Decimal("-1.5"), Decimal(0), Decimal("0.01"), Decimal("123.45")],
    "DECIMAL(38, 0)": [None, Decimal(-(2**100)), Decimal(-128), Decimal(127), Decimal(128), Decimal(2**100)],
    "DATE": [None, dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29)],
    "TIMESTAMP(6)": [None, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(1970, 1, 1, 0, 0, 0, 1)],
    "TIMESTAMP(9)": [None, -1, 0, 1, 999_999, 1_000_000],
}


@pytest.mark.parametrize("text", ORDERED)
def test_comparable_keys_are_ordered_as_paimon_orders_keys(text: str) -> None:
    types = [parse_type(text), parse_type("INT")]
    keys = [comparable_key(serialize_row([v, n], types), types) for v in ORDERED[text] for n in (-1, 1)]

    assert all(a < b for a, b in pairwise(keys))


def test_wrong_arity_is_reported_as_a_corrupt_file() -> None:
    with pytest.raises(CorruptFile, match="2 fields, not the expected 1"):
        deserialize_row(serialize_row([1, 2], [parse_type("INT")] * 2), [parse_type("INT")])


def test_cut_rows_are_reported_as_a_corrupt_file() -> None:
    types = [parse_type("STRING"), parse_type("TIMESTAMP(6)")]
    whole = serialize_row(["a string of many bytes", 1], types)
    for length in range(len(whole)):
        with pytest.raises(CorruptFile):
            deserialize_row(whole[:length], types)


def test_values_that_do_not_fit_the_row_are_refused() -> None:
    with pytest.raises(BrokenInvariant, match="digits after the point"):
        serialize_row([Decimal("1.005")], [parse_type("DECIMAL(10, 2)")])
    with pytest.raises(BrokenInvariant, match="one value for each field"):
        serialize_row([1], [])
    with pytest.raises(BrokenInvariant, match="different lengths"):
        serialize_rows([pa.array([1]), pa.array([1, 2])], [parse_type("BIGINT")] * 2)


def test_null_of_a_nested_type_takes_its_slot_alone() -> None:
    """Statistics that are not dense have it."""
    types = [DataType(Root.ARRAY, element=parse_type("INT")), parse_type("INT")]
    assert serialize_row([None, 7], types) == serialize_row([None, 7], [parse_type("STRING"), types[1]])


def test_nested_types_are_refused() -> None:
    nested = DataType(Root.ARRAY, element=parse_type("INT"))
    with pytest.raises(UnsupportedFeature, match="atomic column"):
        serialize_row([[1]], [nested])
    with pytest.raises(UnsupportedFeature, match="atomic column"):
        serialize_rows([pa.array([[1]], pa.list_(pa.int32()))], [nested])
