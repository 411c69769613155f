"""first, last, max, min, bool_and, bool_or, listagg."""

import math

import pytest

from paimon_table.errors import MalformedRecord
from tests.support.aggregate_functions import function, result


def test_last_value_takes_nulls_and_is_cleared_by_retracts() -> None:
    assert result("last_value", "INT", [1, None]) is None
    assert result("last_value", "INT", [None, 2]) == 2
    assert result("last_value", "INT", [1, 7], retracts=[1]) is None
    assert result("last_value", "INT", [1, 7, 3], retracts=[1]) == 3


def test_last_non_null_value_is_cleared_by_a_retracted_value_only() -> None:
    assert result("last_non_null_value", "INT", [1, None]) == 1
    assert result("last_non_null_value", "INT", [1, None], retracts=[1]) == 1
    assert result("last_non_null_value", "INT", [1, 9], retracts=[1]) is None
    assert result("last_non_null_value", "INT", [1, 9, None, 4], retracts=[1]) == 4


def test_first_values() -> None:
    assert result("first_value", "INT", [None, 2]) is None
    assert result("first_non_null_value", "INT", [None, 2, 3]) == 2
    assert result("first_not_null_value", "STRING", [None, None]) is None


def test_primary_key_takes_the_value_of_retracts_too() -> None:
    assert result("primary-key", "INT", [1, 1], retracts=[1]) == 1


@pytest.mark.parametrize(
    ("name", "start", "older", "expected"),
    [
        ("last_value", 10, 7, 10),
        ("last_non_null_value", 10, 7, 10),
        ("last_non_null_value", None, 7, 7),
        ("first_value", 10, 7, 7),
        ("first_non_null_value", 10, 7, 7),
        ("first_non_null_value", 10, None, None),
        ("sum", 10, 7, 17),
        ("max", 10, 7, 10),
    ],
)
def test_older_values(name: str, start: int | None, older: int | None, expected: int | None) -> None:
    state = function(name, "INT").accumulator()
    state.add(start)
    state.add_older(older)
    assert state.value == expected


def test_of_several_older_first_values_the_last_arrived_stays() -> None:
    state = function("first_value", "INT").accumulator()
    state.add(2)
    state.add_older(0)
    state.add_older(1)
    assert state.value == 1


def test_extremes_follow_the_order_of_keys() -> None:
    assert result("max", "STRING", ["z", "é", None, "B"]) == "é"
    assert result("min", "STRING", ["a", "B"]) == "B"
    assert math.isnan(result("max", "DOUBLE", [1.0, math.nan, math.inf]))
    assert math.copysign(1, result("min", "FLOAT", [0.0, -0.0])) == -1
    assert result("min", "BOOLEAN", [True, False, None]) is False
    assert result("max", "BYTES", [b"\x7f", b"\xff"]) == b"\xff"
    assert result("max", "INT", [None, None]) is None


def test_bool_functions_skip_nulls() -> None:
    assert result("bool_or", "BOOLEAN", [None, False, True]) is True
    assert result("bool_and", "BOOLEAN", [True, None, False]) is False


def test_listagg_leaves_blank_texts_out() -> None:
    assert result("listagg", "STRING", ["u1", "", "\t", "\u3000", None, "u2"]) == "u1,u2"
    assert result("listagg", "STRING", [" ", ""]) is None
    assert result("listagg", "STRING", ["a", "\u00a0"]) == "a,\u00a0"
    assert result("listagg", "STRING", ["a", "b"], list_agg_delimiter="->") == "a->b"


def test_listagg_distinct_appends_new_tokens_and_leaves_the_accumulator() -> None:
    values = ["a;a", "b;a;b;;c"]
    assert result("listagg", "STRING", values, list_agg_delimiter=";", distinct=True) == "a;a;b;c"
    assert result("listagg", "STRING", ["abc;def", "ab"], list_agg_delimiter=";", distinct=True) == "abc;def;ab"


def test_listagg_puts_older_texts_first() -> None:
    state = function("listagg", "STRING").accumulator()
    state.add("x")
    state.add_older("y")
    state.add("z")
    assert state.value == "y,x,z"


@pytest.mark.parametrize(
    ("name", "type_text", "value"),
    [
        ("max", "INT", 1),
        ("min", "INT", 1),
        ("bool_and", "BOOLEAN", True),
        ("first_value", "INT", 1),
        ("first_non_null_value", "INT", 1),
        ("listagg", "STRING", "a"),
    ],
)
def test_functions_that_cannot_retract_say_so(name: str, type_text: str, value: object) -> None:
    with pytest.raises(MalformedRecord, match=rf"{name}.*does not support retraction.*fields\.v\.ignore-retract"):
        result(name, type_text, [value, value], retracts=[1])


def test_ignored_retracts_change_nothing() -> None:
    assert result("max", "INT", [1, 9], retracts=[1], ignore_retract=True) == 1
    assert result("last_value", "INT", [1, 9], retracts=[1], ignore_retract=True) == 1
    assert result("sum", "INT", [4], retracts=[0], ignore_retract=True) is None
