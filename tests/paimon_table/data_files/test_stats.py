"""Statistics of columns in the form of the manifests."""

import datetime as dt
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_table.data_files.stats import (
    column_modes,
    column_range,
    column_ranges,
    key_stats,
    stats_mode,
    united_stats,
    value_stats,
)
from paimon_table.errors import ConfigError
from paimon_table.metadata.bucket_id import EMPTY_ROW
from paimon_table.metadata.data_file import SimpleStats
from paimon_table.options.option_parsing import parse_options
from paimon_table.rows.binary_row import deserialize_row
from paimon_table.schema.table_schema import create_schema
from paimon_table.types import DataField, arrow_type, parse_type


def fields(*types: str) -> list[DataField]:
    return [DataField(i, f"c{i}", parse_type(text)) for i, text in enumerate(types)]


def table(columns: list[DataField], *values: list[Any]) -> pa.Table:
    arrays = [pa.array(v, arrow_type(f.type)) for f, v in zip(columns, values, strict=True)]
    return pa.table(arrays, names=[f.name for f in columns])


def bounds(stats: SimpleStats, *types: str) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    parsed = [parse_type(text) for text in types]
    return deserialize_row(stats.min_values, parsed), deserialize_row(stats.max_values, parsed)


TYPED_VALUES = [
    ("BOOLEAN", [True, False], False, True),
    ("TINYINT", [3, -7], -7, 3),
    ("BIGINT", [2**62, -1], -1, 2**62),
    ("DOUBLE", [1.5, -2.0], -2.0, 1.5),
    ("FLOAT", [1.5, -2.0], -2.0, 1.5),
    ("DECIMAL(10, 2)", [Decimal("1.50"), Decimal("-3.00")], Decimal("-3.00"), Decimal("1.50")),
    ("DECIMAL(38, 0)", [Decimal(2**100), Decimal(-1)], Decimal(-1), Decimal(2**100)),
    ("STRING", ["b", "é", "B"], "B", "é"),
    ("BYTES", [b"\xff", b"\x00"], b"\x00", b"\xff"),
    ("DATE", [dt.date(2024, 1, 1), dt.date(1969, 1, 1)], dt.date(1969, 1, 1), dt.date(2024, 1, 1)),
    ("TIME(3)", [dt.time(1, 2, 3, 4000), dt.time(0)], dt.time(0), dt.time(1, 2, 3, 4000)),
    ("TIMESTAMP(3)", [1, -1], dt.datetime(1969, 12, 31, 23, 59, 59, 999_000), dt.datetime(1970, 1, 1, 0, 0, 0, 1000)),
    ("TIMESTAMP(9)", [1, -1], -1, 1),
]


@pytest.mark.parametrize(("text", "values", "low", "high"), TYPED_VALUES, ids=[t[0] for t in TYPED_VALUES])
def test_bounds_and_null_count_of_each_type(text: str, values: list[Any], low: Any, high: Any) -> None:
    columns = fields(text)

    stats, names = value_stats(table(columns, [*values, None]), columns)

    assert bounds(stats, text) == ((low,), (high,))
    assert stats.null_counts == (1,)
    assert names is None


def test_column_of_nulls_has_a_count_and_no_bounds() -> None:
    columns = fields("INT", "STRING")

    stats, names = value_stats(table(columns, [None, None], [None, None]), columns)

    assert bounds(stats, "INT", "STRING") == ((None, None), (None, None))
    assert (stats.null_counts, names) == ((2, 2), None)


def test_bounds_of_floats_with_nan_are_unknown() -> None:
    columns = fields("DOUBLE", "FLOAT")

    stats, names = value_stats(table(columns, [1.0, math.nan, None], [math.nan] * 3), columns)

    assert bounds(stats, "DOUBLE", "FLOAT") == ((None, None), (None, None))
    assert (stats.null_counts, names) == ((1, 0), None)


def test_zeros_of_both_signs_lie_within_the_bounds() -> None:
    columns = fields("DOUBLE")
    for zero in (0.0, -0.0):
        low, high = bounds(value_stats(table(columns, [zero]), columns)[0], "DOUBLE")

        assert (math.copysign(1, low[0]), math.copysign(1, high[0])) == (-1, 1)


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        ("a longer string x", "a longer string ", "a longer string!"),
        ("exactly sixteen!", "exactly sixteen!", "exactly sixteen!"),
        ("é" * 17, "é" * 16, "é" * 15 + "ê"),
        ("x" * 15 + "\U0010ffff" + "x", "x" * 15 + "\U0010ffff", "x" * 14 + "y"),
        ("\ud7ff" * 17, "\ud7ff" * 16, "\ud7ff" * 15 + "\ue000"),
        ("\U0010ffff" * 17, None, None),
    ],
)
def test_long_texts_are_cut_to_valid_bounds(value: str, low: str | None, high: str | None) -> None:
    columns = fields("STRING")

    stats, _ = value_stats(table(columns, [value]), columns)

    assert bounds(stats, "STRING") == ((low,), (high,))


def test_long_binaries_are_cut_with_carry() -> None:
    columns = fields("BYTES", "BYTES")

    stats, _ = value_stats(table(columns, [b"ab\xff\xff"], [b"\xff\xff\xff\xff"]), columns, "truncate(3)")

    assert bounds(stats, "BYTES", "BYTES") == ((b"ab\xff", None), (b"ac", None))


@pytest.mark.slow
@given(st.lists(st.text(max_size=6), min_size=1), st.integers(1, 4))
def test_cut_bounds_enclose_all_values(values: list[str], length: int) -> None:
    columns = fields("STRING")

    stats, _ = value_stats(table(columns, values), columns, f"truncate({length})")

    (low,), (high,) = bounds(stats, "STRING")
    assert (low is None) == (high is None)
    assert low is None or all(low <= value <= high for value in values)
    assert low is None or max(len(low), len(high)) <= length


def test_modes_keep_nothing_counts_or_whole_bounds() -> None:
    columns = fields("STRING")
    rows = table(columns, ["x" * 20])

    assert value_stats(rows, columns, "none") == (SimpleStats(EMPTY_ROW, EMPTY_ROW, ()), ())
    assert bounds(value_stats(rows, columns, "counts")[0], "STRING") == ((None,), (None,))
    assert value_stats(rows, columns, "counts")[0].null_counts == (0,)
    assert bounds(value_stats(rows, columns, "full")[0], "STRING") == (("x" * 20,), ("x" * 20,))
    with pytest.raises(ConfigError, match="use none, counts"):
        stats_mode("truncate(0)")


def test_dense_statistics_leave_out_nested_columns() -> None:
    columns = [*fields("INT"), DataField(1, "tags", parse_type("ARRAY<INT>")), DataField(2, "c2", parse_type("INT"))]
    rows = table(columns, [1], [[1]], [2])

    stats, names = value_stats(rows, columns)

    assert names == ("c0", "c2")
    assert bounds(stats, "INT", "INT") == ((1, 2), (1, 2))


def test_other_statistics_have_unknown_values_for_what_is_not_collected() -> None:
    columns = fields("INT", "INT")

    stats, names = value_stats(table(columns, [1], [2]), columns, "none", dense=False)

    assert names is None
    assert stats.null_counts == (None, None)
    assert bounds(stats, "INT", "INT") == ((None, None), (None, None))


def test_key_statistics_keep_128_characters() -> None:
    columns = fields("STRING", "INT")
    ranges = column_ranges(table(columns, ["k" * 200, "a"], [1, 2]), columns)

    low, high = bounds(key_stats(ranges, columns), "STRING", "INT")

    assert (low, high) == (("a", 1), ("k" * 127 + "l", 2))


def test_modes_of_columns_follow_the_options() -> None:
    schema = create_schema([(name, parse_type("INT")) for name in "abc"], ["a"])
    options = parse_options(
        {"metadata.stats-mode": "full", "metadata.stats-keep-first-n-columns": "1", "fields.c.stats-mode": "counts"},
        schema,
    )

    modes = column_modes(schema.fields, options)

    assert modes == (stats_mode("full"), stats_mode("none"), stats_mode("counts"))


@pytest.mark.slow
@given(st.lists(st.lists(st.none() | st.integers(-5, 5), min_size=1), min_size=1, max_size=4))
def test_ranges_of_parts_merge_to_the_range_of_the_whole(parts: list[list[int | None]]) -> None:
    column_type = parse_type("INT")
    arrays = [pa.chunked_array([pa.array(part, pa.int32())]) for part in parts]

    merged = column_range(arrays[0], column_type)
    for array in arrays[1:]:
        merged = merged.with_more(column_range(array, column_type))

    assert merged == column_range(pa.chunked_array([a.chunk(0) for a in arrays]), column_type)


def test_a_part_with_nan_makes_the_whole_range_unknown() -> None:
    t = parse_type("DOUBLE")
    known, unknown = (column_range(pa.chunked_array([pa.array([v])]), t) for v in (1.0, math.nan))

    assert not known.with_more(unknown).known
    assert known.with_more(unknown) == unknown.with_more(known)


@pytest.mark.slow
@given(st.lists(st.none() | st.text(max_size=3), min_size=1))
def test_sorted_columns_have_the_same_range(values: list[str | None]) -> None:
    ordered = [v for v in values if v is None] + sorted(v for v in values if v is not None)
    column = pa.chunked_array([pa.array(ordered, pa.string())])

    assert column_range(column, parse_type("STRING"), is_sorted=True) == column_range(column, parse_type("STRING"))


def test_sorted_floats_may_end_with_nan_and_begin_with_a_negative_zero() -> None:
    t = parse_type("DOUBLE")
    zeros, ends = (pa.chunked_array([pa.array(values)]) for values in ([-0.0, 0.0], [1.0, math.nan]))

    assert math.copysign(1, column_range(zeros, t, is_sorted=True).minimum) == -1
    assert not column_range(ends, t, is_sorted=True).known


def test_statistics_of_several_files_hold_for_all_their_rows() -> None:
    columns = fields("INT", "STRING", "DECIMAL(10, 2)", "TIMESTAMP(6)")
    moment = dt.datetime(2024, 5, 1)
    rows = table(
        columns,
        [5, None, -3, 4],
        ["a long text, cut off", "b", None, "zz" * 20],
        [Decimal("-1.50"), Decimal("7.25"), None, Decimal("0.00")],
        [moment, None, dt.datetime(1960, 1, 1), moment],
    )
    parts = [(value_stats(part, columns)[0], part.num_rows) for part in (rows[:1], rows[1:2], rows[2:])]
    assert united_stats(parts, columns) == value_stats(rows, columns)[0]


def test_what_the_statistics_of_one_file_do_not_tell_is_unknown_for_all() -> None:
    columns = fields("DOUBLE")

    def stats(*values: float | None) -> tuple[SimpleStats, int]:
        return value_stats(table(columns, [*values]), columns)[0], len(values)

    def bounds(*parts: tuple[SimpleStats, int]) -> tuple[object, object, int | None]:
        found = united_stats(parts, columns)
        low, high = (deserialize_row(row, [columns[0].type])[0] for row in (found.min_values, found.max_values))
        return low, high, found.null_counts[0]

    assert bounds(stats(1.0), stats(None), stats(3.0)) == (1.0, 3.0, 1)
    assert bounds(stats(None), stats(None, None)) == (None, None, 3)
    assert bounds(stats(1.0), stats(math.nan, None)) == (None, None, 1)
    assert bounds(stats(1.0), (replace(stats(None)[0], null_counts=(None,)), 1)) == (None, None, None)
