"""Merge order against a plain Python comparison."""

from __future__ import annotations

import math
import struct
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.merge.sort import KeyOrder
from paimon_table.options.option_parsing import options_of
from paimon_table.rows.binary_row import serialize_row_at
from paimon_table.schema.table_schema import TableSchema, create_schema
from paimon_table.types import arrow_type, parse_type

_TEXT = st.one_of(
    st.text(st.sampled_from("abé\0"), max_size=4),
    st.text(st.sampled_from("ab"), max_size=12).map(lambda s: "user-" + s),
    st.sampled_from(["same-prefix-1234567-x", "same-prefix-1234567-y", "same-prefix-1234567", ""]),
)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "INT": st.integers(-5, 5) | st.sampled_from([-(2**31), 2**31 - 1]),
    "BIGINT": st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1]),
    "BOOLEAN": st.booleans(),
    "STRING": _TEXT,
    "BYTES": st.binary(max_size=3) | st.binary(min_size=9, max_size=11),
    "DOUBLE": st.sampled_from([0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan]),
    "FLOAT": st.sampled_from([0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan]),
    "DECIMAL(10, 2)": st.decimals(-100, 100, places=2),
    "DECIMAL(30, 2)": st.sampled_from([Decimal("-1e20"), Decimal("1e20"), Decimal("0.01"), Decimal("-0.01")]),
    "DATE": st.dates(date(1969, 12, 1), date(1970, 2, 1)),
    "TIMESTAMP(6)": st.datetimes(datetime(1969, 12, 31, 23), datetime(1970, 1, 1, 1)),
}


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return (2, 0.0) if math.isnan(value) else (1, value, -math.copysign(1, value) < 0) if value == 0 else (1, value)
    if isinstance(value, str):
        return value.encode()
    return value


def _part(value: Any, descending: bool = False) -> tuple[bool, Any]:
    if value is None:
        return (False, 0)
    return (True, _Reversed(_comparable(value)) if descending else _comparable(value))


class _Reversed:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(other.value == self.value)


def _schema(key_types: list[str], sequence_types: list[str], descending: bool) -> TableSchema:
    columns = [(f"k{i}", parse_type(t)) for i, t in enumerate(key_types)]
    columns += [(f"s{i}", parse_type(t)) for i, t in enumerate(sequence_types)]
    options = {"bucket": "1", "primary-key.nullable": "true"}
    if sequence_types:
        options["sequence.field"] = ",".join(f"s{i}" for i in range(len(sequence_types)))
        options["sequence.field.sort-order"] = "descending" if descending else "ascending"
    return create_schema(columns, [f"k{i}" for i in range(len(key_types))], options=options)


@st.composite
def _cases(draw: st.DrawFn) -> tuple[TableSchema, list[tuple[Any, ...]], bool]:
    key_types = draw(st.lists(st.sampled_from(sorted(_VALUES)), min_size=1, max_size=3))
    sequence_types = draw(st.lists(st.sampled_from(sorted(_VALUES)), max_size=2))
    descending = draw(st.booleans())
    nullable_keys = draw(st.booleans())
    keys = [_VALUES[t] | st.none() if nullable_keys else _VALUES[t] for t in key_types]
    row = st.tuples(st.integers(0, 4), st.integers(0, 3), *keys, *(_VALUES[t] | st.none() for t in sequence_types))
    return _schema(key_types, sequence_types, descending), draw(st.lists(row, max_size=25)), descending


def _table(schema: TableSchema, rows: list[tuple[Any, ...]]) -> pa.Table:
    types = [pa.int64(), pa.int8(), *(arrow_type(f.type) for f in schema.fields)]
    names = ["_SEQUENCE_NUMBER", "_VALUE_KIND", *schema.column_names]
    return pa.table([pa.array([r[i] for r in rows], t) for i, t in enumerate(types)], names=names)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(_cases())
def test_rows_sort_by_key_sequence_number_and_kind(case: tuple[TableSchema, list[tuple[Any, ...]], bool]) -> None:
    schema, rows, descending = case
    order = KeyOrder(schema, options_of(schema))
    width = len(schema.trimmed_primary_keys)

    def rank(i: int) -> Any:
        row = rows[i]
        key = tuple(_part(v) for v in row[2 : 2 + width])
        return key, tuple(_part(v, descending) for v in row[2 + width :]), row[0], row[1] % 2 == 0

    table = _table(schema, rows)
    groups = order.sort(table)
    expected = sorted(range(len(rows)), key=rank)
    assert groups.indices.tolist() == expected
    keys = [rank(i)[0] for i in expected]
    assert groups.starts.tolist() == [i for i in range(len(keys)) if i == 0 or keys[i] != keys[i - 1]]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(_cases())
def test_counting_rows_below_a_key_agrees_with_the_order(
    case: tuple[TableSchema, list[tuple[Any, ...]], bool],
) -> None:
    schema, rows, _ = case
    if not rows:
        return
    order = KeyOrder(schema, options_of(schema))
    table = _table(schema, rows)
    table = table.take(pa.array(order.sort_indices(table)))
    keys = [order.key_at(table, i) for i in range(len(rows))]
    assert keys == sorted(keys)
    for key in keys:
        assert order.count_below(table, key, False) == sum(k < key for k in keys)
        assert order.count_below(table, key, True) == sum(k <= key for k in keys)


@pytest.mark.parametrize(
    ("key_type", "values"),
    [
        ("BOOLEAN", [False, True]),
        ("TINYINT", [-128, 127]),
        ("SMALLINT", [-1, 1]),
        ("INT", [-(2**31), 0]),
        ("BIGINT", [-(2**63), 2**63 - 1]),
        ("FLOAT", [-0.0, 0.0, math.inf, math.nan]),
        ("DOUBLE", [-math.inf, -0.0, 1e300, math.nan]),
        ("DECIMAL(9, 2)", [Decimal("-1.50"), Decimal("2.00")]),
        ("DECIMAL(38, 3)", [Decimal("-12345678901234567890.123"), Decimal("0.001")]),
        ("CHAR(3)", ["", "é"]),
        ("STRING", ["a" * 20, "a" * 21, "\U0001f600"]),
        ("BYTES", [b"", b"\x00", b"\xff" * 9]),
        ("DATE", [date(1, 1, 1), date(9999, 12, 31)]),
        ("TIME(3)", [time(0), time(23, 59, 59, 999000)]),
        ("TIMESTAMP(3)", [datetime(1900, 1, 1), datetime(2001, 2, 3, 4, 5, 6, 7000)]),
        ("TIMESTAMP(6)", [datetime(1900, 1, 1), datetime(2001, 2, 3, 4, 5, 6, 7)]),
        ("TIMESTAMP(9)", [-1, 10**18 + 1]),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", [datetime(1969, 12, 31), datetime(2001, 2, 3, 4, 5, 6, 7)]),
    ],
)
def test_keys_of_files_and_of_rows_are_the_same(key_type: str, values: list[Any]) -> None:
    schema = _schema([key_type], [], False)
    order = KeyOrder(schema, options_of(schema))
    table = _table(schema, [(0, 0, None), *((1, 0, value) for value in values)])
    keys = [serialize_row_at([table.column("k0")], order.key_types, i) for i in range(table.num_rows)]
    assert [order.file_key(key) for key in keys] == [order.key_at(table, i) for i in range(table.num_rows)]
    assert order.sort_indices(table).tolist() == list(range(table.num_rows))


@pytest.mark.parametrize("n", [1, 70_000])
def test_a_single_integer_key_sorts_stably(n: int) -> None:
    schema = _schema(["BIGINT"], [], False)
    keys = np.random.default_rng(1).integers(-n // 2, n // 2, n)
    table = _table(schema, []).schema.empty_table()
    table = pa.table([pa.array(np.arange(n)), pa.array(np.zeros(n, np.int8)), pa.array(keys)], names=table.column_names)
    groups = KeyOrder(schema, options_of(schema)).sort(table)
    assert np.array_equal(groups.indices, np.argsort(keys, kind="stable"))
    assert len(groups.starts) == len(np.unique(keys))


def test_all_nans_are_one_key() -> None:
    schema = _schema(["DOUBLE"], [], False)
    odd_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
    table = _table(schema, [(0, 0, math.nan), (1, 0, odd_nan), (2, 0, math.inf)])
    groups = KeyOrder(schema, options_of(schema)).sort(table)
    assert groups.indices.tolist() == [2, 0, 1]
    assert groups.starts.tolist() == [0, 1]
