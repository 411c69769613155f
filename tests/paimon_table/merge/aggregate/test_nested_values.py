"""collect, merge_map, merge_map_with_keytime, nested_update, nested_partial_update."""

from __future__ import annotations

import math
from typing import Any

import pytest

from paimon_table.errors import MalformedRecord
from tests.support.aggregate_functions import function, result

_ROWS = "ARRAY<ROW<k0 INT, k1 INT, v STRING, seq INT>>"


def _nested(values: list[Any], retracts: tuple[int, ...] = (), **options: Any) -> Any:
    return result("nested_update", _ROWS, values, retracts, **options)


def test_collect_concatenates_with_nulls() -> None:
    assert result("collect", "ARRAY<INT>", [[1, None], None, [], [1]]) == (1, None, 1)
    assert result("collect", "ARRAY<INT>", [None, None]) is None
    assert result("collect", "ARRAY<INT>", [None, []]) == ()


def test_collect_distinct_keeps_each_element_once() -> None:
    assert result("collect", "ARRAY<STRING>", [["b", "a", "b"], ["a", None, "c"]], distinct=True) == (
        "b",
        "a",
        None,
        "c",
    )
    assert len(result("collect", "ARRAY<DOUBLE>", [[math.nan, 0.0], [math.nan, -0.0]], distinct=True)) == 3


def test_collect_distinct_knows_nested_values_by_content() -> None:
    rows = "ARRAY<ROW<a INT, m MAP<INT, STRING>>>"
    first = {"a": 1, "m": [(1, "A"), (2, "B")]}
    same = {"a": 1, "m": [(2, "B"), (1, "A")]}
    assert result("collect", rows, [[first], [same]], distinct=True) == ((1, ((1, "A"), (2, "B"))),)
    assert result("collect", "ARRAY<BYTES>", [[b"\1"], [b"\1", b"\2"]], distinct=True) == (b"\1", b"\2")


def test_collect_retracts_one_occurrence_per_element() -> None:
    assert result("collect", "ARRAY<INT>", [[1, 1, 2, 2, 3], [1, 2, 3]], retracts=[1]) == (1, 2)
    assert result("collect", "ARRAY<INT>", [[1, 2], [7]], retracts=[1]) == (1, 2)
    assert result("collect", "ARRAY<INT>", [None, [1]], retracts=[1]) is None
    assert result("collect", "ARRAY<INT>", [[1], [1]], retracts=[1]) == ()


@pytest.mark.parametrize(("ignore_retract", "expected"), [(False, (2, 1)), (True, (1, 2))])
def test_older_elements_are_appended_unless_retracts_are_ignored(
    ignore_retract: bool, expected: tuple[int, ...]
) -> None:
    state = function("collect", "ARRAY<INT>", ignore_retract=ignore_retract).accumulator()
    state.add((2,))
    state.add_older((1,))
    assert state.value == expected


def test_merge_map_replaces_entries_and_retracts_by_key() -> None:
    maps = [[("a", 1), ("b", 2)], None, [("b", None), ("c", 3)]]
    assert result("merge_map", "MAP<STRING, INT>", maps) == (("a", 1), ("b", None), ("c", 3))
    assert result("merge_map", "MAP<STRING, INT>", [maps[0], [("a", 99)]], retracts=[1]) == (("b", 2),)
    assert result("merge_map", "MAP<STRING, INT>", [[("a", 1)], None], retracts=[0]) is None


def test_merge_map_lets_newer_entries_win_over_older_ones() -> None:
    state = function("merge_map", "MAP<INT, INT>").accumulator()
    state.add(((1, 10),))
    state.add_older(((1, 5), (2, 6)))
    assert dict(state.value) == {1: 10, 2: 6}


def test_merge_map_with_keytime() -> None:
    type_text = "MAP<STRING, ROW<v STRING, ts STRING>>"

    def merged(*maps: Any) -> dict[str, Any]:
        return dict(result("merge_map_with_keytime", type_text, list(maps)))

    start = [("a", {"v": "A", "ts": "2"})]
    assert merged(start, [("a", {"v": "B", "ts": "2"})]) == {"a": ("A", "2")}
    assert merged(start, [("a", {"v": "B", "ts": "3"})]) == {"a": ("B", "3")}
    assert merged(start, [("a", {"v": "B", "ts": "10"})]) == {"a": ("A", "2")}
    assert merged(start, [("a", {"v": "B", "ts": None})]) == {"a": ("A", "2")}
    assert merged([("a", {"v": "A", "ts": None})], [("a", {"v": "B", "ts": "0"})]) == {"a": ("B", "0")}
    assert merged(start, [("a", None)]) == {}
    assert merged(start, [("a", None)], [("a", {"v": "B", "ts": "1"})]) == {"a": ("B", "1")}


def test_merge_map_with_keytime_takes_the_named_time_field() -> None:
    type_text = "MAP<STRING, ROW<ts STRING, v STRING>>"
    maps = [[("a", {"ts": "2", "v": "A"})], [("a", {"ts": "1", "v": "Z"})]]
    assert result("merge_map_with_keytime", type_text, maps, ts_field="ts") == (("a", ("2", "A")),)


def _row(k0: int | None, k1: int | None, v: str, seq: int | None = None) -> dict[str, Any]:
    return {"k0": k0, "k1": k1, "v": v, "seq": seq}


def test_nested_update_appends_without_key_up_to_the_limit() -> None:
    values = [[_row(0, 1, "A")], [None, _row(0, 1, "B")], [_row(0, 1, "C")]]
    assert [row[2] for row in _nested(values)] == ["A", "B", "C"]
    assert [row[2] for row in _nested(values, count_limit=2)] == ["A", "B"]


def test_nested_update_without_key_retracts_equal_rows() -> None:
    same = _row(0, 1, "A")
    assert _nested([[same, _row(0, 2, "B"), same], [same]], retracts=(1,)) == ((0, 2, "B", None),)


def test_nested_update_replaces_rows_of_a_key() -> None:
    values = [[_row(0, 0, "A"), _row(0, 1, "B")], [_row(0, 1, "b")]]
    assert _nested(values, nested_key=("k0", "k1")) == ((0, 0, "A", None), (0, 1, "b", None))
    assert _nested([*values, [_row(0, 1, "x")]], (2,), nested_key=("k0", "k1")) == ((0, 0, "A", None),)


def test_nested_update_takes_no_new_keys_at_the_limit() -> None:
    values = [[_row(0, 0, "A")], [_row(0, 1, "B")], [_row(0, 2, "C"), _row(0, 0, "a")]]
    merged = _nested(values, nested_key=("k0", "k1"), count_limit=2)
    assert [row[2] for row in merged] == ["a", "B"]


def test_nested_sequence_decides_and_ties_take_the_newer_row() -> None:
    options: dict[str, Any] = {"nested_key": ("k0", "k1"), "nested_sequence_fields": ("seq",)}
    assert _nested([[_row(0, 0, "A", 2)], [_row(0, 0, "B", 1)]], **options)[0][2] == "A"
    assert _nested([[_row(0, 0, "A", 2)], [_row(0, 0, "B", 2)]], **options)[0][2] == "B"
    assert _nested([[_row(0, 0, "A", 2)], [_row(0, 0, "B", None)]], **options)[0][2] == "A"


def test_null_in_a_nested_key_follows_the_strategy() -> None:
    values = [[_row(0, 0, "A")], [_row(0, None, "B")]]
    assert len(_nested(values, nested_key=("k0", "k1"))) == 2
    assert len(_nested(values, nested_key=("k0", "k1"), nested_key_null_strategy="ignore")) == 1
    with pytest.raises(MalformedRecord, match=r"'v'.*nested key contains null.*nested-key-null-strategy"):
        _nested(values, nested_key=("k0", "k1"), nested_key_null_strategy="error")


def test_nested_partial_update_keeps_fields_where_the_newer_row_has_null() -> None:
    values = [[{"k": 0, "a": 1, "b": None}], [{"k": 0, "a": None, "b": "x"}, None, {"k": 1, "a": 2, "b": None}]]
    merged = result("nested_partial_update", "ARRAY<ROW<k INT, a INT, b STRING>>", values, nested_key=("k",))
    assert merged == ((0, 1, "x"), (1, 2, None))
