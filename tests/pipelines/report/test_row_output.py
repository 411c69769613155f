"""Rows as JSON lines, CSV and tables for people."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest

from pipelines.report.output import RowFormat
from pipelines.report.row_output import plain_values, write_rows

EVERYTHING = pa.table(
    {
        "big": pa.array([2**63 - 1, None], pa.int64()),
        "decimal": pa.array([Decimal("0.10"), None], pa.decimal128(38, 2)),
        "ratio": pa.array([float("nan"), 0.1], pa.float64()),
        "day": pa.array([date(1, 1, 2), None], pa.date32()),
        "time": pa.array([time(1, 2, 3, 4000), None], pa.time32("ms")),
        "local": pa.array([datetime(2024, 5, 1, 12, 0, 0, 1), None], pa.timestamp("us")),
        "instant": pa.array([datetime(2024, 5, 1, tzinfo=UTC), None], pa.timestamp("ms", "UTC")),
        "nanos": pa.array([1_714_521_600_000_000_001, None], pa.timestamp("ns")),
        "raw": pa.array([b"\x00\xff", b""], pa.binary()),
        "list": pa.array([[Decimal("1.5"), None], None], pa.list_(pa.decimal128(5, 1))),
        "words": pa.array([[("a", date(2024, 1, 1))], []], pa.map_(pa.string(), pa.date32())),
        "numbers": pa.array([[(1, "x")], None], pa.map_(pa.int32(), pa.string())),
        "row": pa.array([{"a": b"x", "b": [1]}, None], pa.struct([("a", pa.binary()), ("b", pa.list_(pa.int8()))])),
        "flag": pa.array([True, None], pa.bool_()),
    }
)


def printed(table: pa.Table, output: RowFormat) -> str:
    stream = io.StringIO()
    write_rows([table], output, stream)
    return stream.getvalue()


@pytest.mark.parametrize("text", ["0.0000000", "0.0000001", "-0.0000010", "12.0000000"])
def test_decimals_have_no_exponent(text: str) -> None:
    column = pa.array([Decimal(text), None], pa.decimal128(30, 7))
    assert plain_values(column) == [text, None]
    assert plain_values(pa.array([[Decimal(text)]], pa.list_(pa.decimal128(30, 7)))) == [[text]]


def test_json_keeps_every_value_exact() -> None:
    first, second = (json.loads(line) for line in printed(EVERYTHING, RowFormat.JSON).splitlines())
    assert first == {
        "big": 2**63 - 1,
        "decimal": "0.10",
        "ratio": "NaN",
        "day": "0001-01-02",
        "time": "01:02:03.004",
        "local": "2024-05-01T12:00:00.000001",
        "instant": "2024-05-01T00:00:00.000Z",
        "nanos": "2024-05-01T00:00:00.000000001",
        "raw": "AP8=",
        "list": ["1.5", None],
        "words": {"a": "2024-01-01"},
        "numbers": [{"key": 1, "value": "x"}],
        "row": {"a": "eA==", "b": [1]},
        "flag": True,
    }
    assert {name: value for name, value in second.items() if value is not None} == {
        "ratio": 0.1,
        "raw": "",
        "words": {},
    }


def test_csv_tells_null_from_empty_text() -> None:
    table = pa.table({"a": ["", None, 'say "x"', "two\nlines", "1,5"], "b": [[1], None, [], None, [2, 3]]})
    assert printed(table, RowFormat.CSV) == ('a,b\n"",[1]\n,\n"say ""x""",[]\n"two\nlines",\n"1,5","[2,3]"\n')


def test_a_table_for_people_shows_all_columns_when_it_is_no_terminal() -> None:
    wide = pa.table({f"column_number_{i}": [f"value {i}"] for i in range(30)})
    lines = printed(wide, RowFormat.TABLE).splitlines()
    assert len(lines) == 2
    assert all(f"value {i}" in lines[1] for i in range(30))


def test_text_that_looks_like_markup_is_printed_as_it_is() -> None:
    assert "[bold]x[/bold]" in printed(pa.table({"a": ["[bold]x[/bold]"]}), RowFormat.TABLE)


HOSTILE = "a\u202eb\nc\x1b[31m"


@pytest.mark.parametrize("output", [RowFormat.TABLE, RowFormat.VERTICAL, RowFormat.JSON])
def test_nothing_in_names_or_values_is_for_the_terminal(output: RowFormat) -> None:
    rows = pa.table({HOSTILE: ["x"], "v": [HOSTILE], "many": [[HOSTILE]]})
    text = printed(rows, output)
    assert all(line.isprintable() for line in text.splitlines())
    if output is RowFormat.JSON:
        assert json.loads(text) == {HOSTILE: "x", "v": HOSTILE, "many": [HOSTILE]}
    else:
        assert text.count(r"a\u202eb\nc\x1b[31m") == 2


def test_csv_has_the_bytes_as_they_are() -> None:
    assert printed(pa.table({HOSTILE: [HOSTILE]}), RowFormat.CSV) == f'"{HOSTILE}"\n"{HOSTILE}"\n'


def test_slices_of_nested_columns_print_their_own_values() -> None:
    lists = pa.array([[1], [2, 3], None, [4]], pa.list_(pa.int32())).slice(1, 3)
    structs = pa.array([{"a": 1}, {"a": 2}, None, {"a": None}], pa.struct([("a", pa.int64())])).slice(1)
    maps = pa.array([[("x", 1)], [("y", 2)]], pa.map_(pa.string(), pa.int32())).slice(1)
    assert plain_values(lists) == [[2, 3], None, [4]]
    assert plain_values(structs) == [{"a": 2}, None, {"a": None}]
    assert plain_values(maps) == [{"y": 2}]


def test_a_result_without_rows_still_has_its_csv_header() -> None:
    assert printed(EVERYTHING.slice(0, 0).select(["big", "flag"]), RowFormat.CSV) == "big,flag\n"


def test_infinite_timestamps_are_named() -> None:
    largest, smallest = (1 << 63) - 1, -(1 << 63)
    array = pa.array([largest, smallest, 0, None], pa.int64()).cast(pa.timestamp("us"))

    assert plain_values(array) == ["infinity", "-infinity", "1970-01-01T00:00:00.000000", None]


def test_infinite_dates_are_named_and_far_ones_counted() -> None:
    days = pa.array([(1 << 31) - 1, -(1 << 31), 0, None, -(1 << 31) + 1], pa.int32())

    assert plain_values(days.cast(pa.date32())) == [
        "infinity",
        "-infinity",
        "1970-01-01",
        None,
        "-2147483647 days since 1970",
    ]
