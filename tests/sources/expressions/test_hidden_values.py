"""Reasons of bad records under rules with masks: they name the kind of a value, and never the value."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from sources.expressions.transform import without_values
from sources.values.json_values import describe


@pytest.mark.parametrize(
    ("value", "told"),
    [
        *((value, "a boolean does not fit INT") for value in (True, False)),
        *((value, "a number that is not finite does not fit INT") for value in (float("nan"), Decimal("-Infinity"))),
        *((value, "number ... does not fit INT") for value in (7, -0.5, Decimal("1E+500"), 10**400)),
        *((value, "string ...") for value in ("", "Jane", "it's", 'a "b" c', "x" * 90)),
        *((value, "array ...") for value in ([], [True], [None, "a"], [[True] * 90])),
        *((value, "object ...") for value in ({}, {"a": True}, {"a": "x" * 90}, {"it's": [None]})),
    ],
)
def test_a_reason_says_the_kind_of_a_value_alone(value: Any, told: str) -> None:
    assert without_values(f"column i INT: {describe(value)} does not fit INT") == f"column i INT: {told}"


def test_a_reason_says_the_kind_of_a_boolean_in_every_rule() -> None:
    assert describe(True) == describe(False) == "a boolean"
