"""Changelog rows from the rows before and after."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_table.compaction.changelog import derive_changelog
from paimon_table.options.table_options import TableOptions
from paimon_table.rows.row_equality import equal_rows

_KINDS = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}
_SHORT = ("+I", "-U", "+U", "-D")


def _table(rows: list[tuple[Any, ...]]) -> pa.Table:
    """Rows of (kind, sequence number, key, value, ignored)."""
    return pa.table(
        {
            "_SEQUENCE_NUMBER": pa.array([row[1] for row in rows], pa.int64()),
            "_VALUE_KIND": pa.array([_KINDS[row[0]] for row in rows], pa.int8()),
            "k": pa.array([row[2] for row in rows], pa.int64()),
            "v": pa.array([row[3] for row in rows], pa.int64()),
            "ignored": pa.array([row[4] for row in rows], pa.int64()),
        }
    )


def _derive(before: list[Any], after: list[Any], options: TableOptions) -> list[tuple[Any, ...]]:
    stored = [row for row in before if row is not None]
    present = np.array([row is not None for row in before], np.bool_)
    before_row = np.where(present, np.cumsum(present, dtype=np.int64) - 1, -1)
    rows = derive_changelog(_table(stored), before_row, _table(after), options).to_pylist()
    return [(_SHORT[row["_VALUE_KIND"]], row["_SEQUENCE_NUMBER"], row["k"], row["v"], row["ignored"]) for row in rows]


_A, _B = 10, 20


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, "+I", ["+I after"]),
        (None, "+U", ["+I after"]),
        (None, "-D", []),
        (None, "-U", []),
        ("-D", "+I", ["+I after"]),
        ("-D", "-D", []),
        ("-U", "+U", ["+I after"]),
        ("+I", "-D", ["-D before"]),
        ("+U", "-U", ["-D before"]),
        ("+I", "+I", ["-U before", "+U after"]),
        ("+U", "+U", ["-U before", "+U after"]),
    ],
)
def test_each_pair_of_states_gives_its_rows(before: str | None, after: str, expected: list[str]) -> None:
    rows = {"before": (1, 7, _A, 0), "after": (2, 7, _B, 0)}
    found = _derive([before and (before, *rows["before"])], [(after, *rows["after"])], TableOptions())
    assert found == [(text[:2], *rows[text[3:]]) for text in expected]


def test_rows_are_sorted_by_key_with_the_old_one_first() -> None:
    before = [("+I", 1, 1, 10, 0), None, ("+I", 2, 3, 30, 0), ("+I", 3, 4, 40, 0)]
    after = [("+U", 9, 1, 11, 0), ("+I", 8, 2, 20, 0), ("-D", 7, 3, 0, 0), ("+U", 6, 4, 41, 0)]
    assert [row[:4] for row in _derive(before, after, TableOptions())] == [
        ("-U", 1, 1, 10),
        ("+U", 9, 1, 11),
        ("+I", 8, 2, 20),
        ("-D", 2, 3, 30),
        ("-U", 3, 4, 40),
        ("+U", 6, 4, 41),
    ]


def test_row_deduplicate_compares_the_values_that_count() -> None:
    options = TableOptions(row_deduplicate=True, row_deduplicate_ignore_fields=("ignored",))
    before = [("+I", 1, 1, 10, 0), ("+I", 2, 2, None, 0), ("+I", 3, 3, None, 0), ("+I", 4, 4, 1, 0)]
    after = [("+U", 5, 1, 10, 9), ("+U", 6, 2, None, 0), ("+U", 7, 3, 1, 0), ("-D", 8, 4, 1, 0)]
    assert [row[0] for row in _derive(before, after, options)] == ["-U", "+U", "-D"]
    assert len(_derive(before, after, TableOptions(row_deduplicate=True))) == 5


def test_no_changes_give_an_empty_table() -> None:
    assert _derive([], [], TableOptions()) == []
    assert _derive([None, None], [("-D", 1, 1, 0, 0), ("-D", 2, 2, 0, 0)], TableOptions()) == []


@pytest.mark.parametrize(
    ("left", "right", "column_type", "same"),
    [
        (math.nan, math.nan, pa.float64(), True),
        (0.0, -0.0, pa.float64(), False),
        (None, 0, pa.int32(), False),
        (None, None, pa.string(), True),
        ("a", "b", pa.string(), False),
        (True, True, pa.bool_(), True),
        ([1, None], [1, None], pa.list_(pa.int32()), True),
        ([1, None], [1], pa.list_(pa.int32()), False),
        (None, [], pa.list_(pa.int32()), False),
        ([("a", 1), ("b", 2)], [("b", 2), ("a", 1)], pa.map_(pa.string(), pa.int32()), True),
        ([("a", 1)], [("a", None)], pa.map_(pa.string(), pa.int32()), False),
        ({"x": [math.nan]}, {"x": [math.nan]}, pa.struct({"x": pa.list_(pa.float32())}), True),
        ({"x": None}, None, pa.struct({"x": pa.int32()}), False),
    ],
)
def test_values_are_equal_when_nothing_can_tell_them_apart(
    left: Any, right: Any, column_type: pa.DataType, same: bool
) -> None:
    first, second = (pa.table({"c": pa.array([value], column_type)}) for value in (left, right))
    assert equal_rows(first, second, ["c"]).tolist() == [same]


@pytest.mark.parametrize(
    ("stored", "t"), [(pa.int32(), pa.date32()), (pa.int64(), pa.timestamp("us")), (pa.int64(), pa.timestamp("ns"))]
)
def test_nested_dates_and_timestamps_of_all_years_are_compared(stored: pa.DataType, t: pa.DataType) -> None:
    far = 2_932_897 if t == pa.date32() else (1 << 62) + 1
    nested = pa.struct({"l": pa.list_(t)})

    def rows(value: int) -> pa.Table:
        leaf = pa.array([far, value], stored).cast(t)
        lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), leaf)
        return pa.table({"n": pa.StructArray.from_arrays([lists], fields=list(nested))})

    assert equal_rows(rows(far), rows(far), ["n"]).tolist() == [True, True]
    assert equal_rows(rows(far), rows(far + 1), ["n"]).tolist() == [True, False]
