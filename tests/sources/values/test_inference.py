"""Types for schemaless columns hold all values seen."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from paimon_table.types import parse_type
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
