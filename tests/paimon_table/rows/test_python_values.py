"""Columns as Python values: nothing is lost on the way there and back."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.rows.python_values import identity_of, readable, to_arrow, to_python
from paimon_table.types import arrow_type, parse_type

_DEEP = "ARRAY<ROW<t TIMESTAMP(9), m MAP<STRING, ARRAY<DECIMAL(38, 2)>>, d DATE, x TIME(3), b BYTES>>"


@pytest.mark.parametrize(
    ("type_text", "values"),
    [
        ("TIMESTAMP(9)", [1_700_000_000_123_456_789, None, -1]),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", [1, None]),
        ("DATE", [-1, None, 19_000]),
        ("TIME(3)", [1, None]),
        ("MAP<INT, ROW<a INT, b STRING>>", [None, ((1, (2, "x")), (3, None)), ()]),
        ("MULTISET<STRING>", [(("a", 2),), None]),
        (_DEEP, [((5, (("k", (None,)),), 3, 4, b"\xff"), None, (None, None, None, None, None)), None, ()]),
    ],
)
def test_values_come_back_without_loss(type_text: str, values: list[Any]) -> None:
    t = arrow_type(parse_type(type_text))
    array = to_arrow([values[-1], *values, values[0]], t)[1:-1]

    assert to_python(array) == values
    assert to_arrow(to_python(array), t).equals(array)
    assert to_arrow(values, t).type == t


def test_identity_is_by_content() -> None:
    def identity(type_text: str, value: Any) -> Any:
        of = identity_of(arrow_type(parse_type(type_text)))
        return value if of is None else of(value)

    assert identity("ARRAY<INT>", (1, 2)) == identity("ARRAY<INT>", (1, 2))
    assert identity("MAP<INT, INT>", ((1, 2), (3, 4))) == identity("MAP<INT, INT>", ((3, 4), (1, 2)))
    assert identity("ROW<a DOUBLE>", (math.nan,)) == identity("ROW<a DOUBLE>", (float("nan"),))
    assert identity("ROW<a DOUBLE>", (0.0,)) != identity("ROW<a DOUBLE>", (-0.0,))
    assert identity("ROW<a DOUBLE>", None) is None
    assert identity_of(pa.list_(pa.int32())) is None


def test_every_moment_has_a_text() -> None:
    assert readable(pa.scalar(5)) == 5
    assert str(readable(pa.scalar(1, pa.date32()))) == "1970-01-02"
    assert readable(pa.scalar(2_932_897, pa.date32())) == "10000-01-01"
    assert readable(pa.scalar(400_000_000_000_000_000, pa.timestamp("us"))) == "14645-06-30 15:06:40.000000"
    assert "2147483647" in str(readable(pa.scalar(2**31 - 1, pa.date32())))
