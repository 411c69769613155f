"""Types for schemaless columns hold all values seen."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from paimon_table.types import parse_type
from sources.json_changes.observing import all_columns
from sources.observed_columns import joined
from sources.values.inference import infer_type


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([None, True], "BOOLEAN"),
        ([1, -5], "BIGINT"),
        ([1, 1 << 63], "DECIMAL(38, 0)"),
        ([10**38], "STRING"),
        ([Decimal("1.5"), 2], "DOUBLE"),
        ([Decimal("1.5"), (1 << 53) + 1], "STRING"),
        ([Decimal("1.5"), "NaN"], "DOUBLE"),
        (["NaN"], "STRING"),
        (["2024-02-29"], "STRING"),
        ([{"a": 1}], "STRING"),
        ([[1, None], []], "ARRAY<BIGINT>"),
        ([["a"], [1]], "STRING"),
        ([[1, "a"]], "ARRAY<STRING>"),
        ([1, "a"], "STRING"),
        ([True, 1], "STRING"),
    ],
)
def test_type_of_values(values: list[Any], expected: str) -> None:
    assert infer_type(values) == parse_type(expected)


@pytest.mark.parametrize("values", [[], [None], [[]], [[None]]])
def test_nothing_to_see_gives_no_type(values: list[Any]) -> None:
    assert infer_type(values) is None


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [([7], [Decimal("1.5")], "DOUBLE"), ([(1 << 53) + 1], [Decimal("1.5")], "STRING"), ([7], ["a"], "STRING")],
)
def test_values_that_two_tasks_see_have_the_type_of_values_seen_together(
    left: list[Any], right: list[Any], expected: str
) -> None:
    (one,), (other,) = (all_columns(None, [{"a": value} for value in values], 1) for values in (left, right))

    assert joined(one, other).type == joined(other, one).type == parse_type(expected)
    assert infer_type([*left, *right]) == parse_type(expected)
