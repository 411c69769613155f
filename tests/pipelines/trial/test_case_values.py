"""When a value that a case writes is the value of a table's column."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pipelines.config.yaml_file import parse_yaml
from pipelines.report.row_output import plain_values
from pipelines.trial.case_values import comparable

_MOMENT = datetime(2026, 1, 5, 6, 1, 0, 500_000)
_ROW = pa.struct([("id", pa.int64()), ("at", pa.timestamp("us"))])

SAME: list[tuple[Any, pa.DataType, str]] = [
    (Decimal("12.50"), pa.decimal128(10, 2), "12.5"),
    (Decimal("12.50"), pa.decimal128(10, 2), "'12.50'"),
    (Decimal("12345678901234567890.1"), pa.decimal128(38, 1), "12345678901234567890.1"),
    (Decimal("1E+2"), pa.decimal128(5, 0), "100"),
    (7, pa.int32(), "7"),
    (True, pa.bool_(), "true"),
    (0.1, pa.float32(), "0.1"),
    (0.1, pa.float64(), "0.1"),
    (float("nan"), pa.float64(), "NaN"),
    (float("inf"), pa.float64(), ".inf"),
    ("7", pa.string(), "'7'"),
    (b"\x01\x02", pa.binary(), "AQI="),
    (date(2026, 1, 5), pa.date32(), "2026-01-05"),
    (time(6, 1), pa.time32("ms"), "'06:01:00'"),
    (_MOMENT, pa.timestamp("us"), "2026-01-05 06:01:00.5"),
    (_MOMENT, pa.timestamp("ms"), "2026-01-05T06:01:00.500"),
    (_MOMENT.replace(tzinfo=UTC), pa.timestamp("us", "UTC"), "2026-01-05T06:01:00.5Z"),
    (_MOMENT.replace(tzinfo=UTC), pa.timestamp("us", "UTC"), "2026-01-05T11:46:00.5+05:45"),
    (datetime(1, 1, 1), pa.timestamp("us"), "0001-01-01 00:00"),
    ([1, None], pa.list_(pa.int64()), "[1, null]"),
    ({"id": 1, "at": None}, _ROW, "{ id: 1 }"),
    ({"id": 1, "at": _MOMENT}, _ROW, "{ id: 1, at: '2026-01-05 06:01:00.500000' }"),
    ([("b", 2), ("a", 1)], pa.map_(pa.string(), pa.int32()), "{ a: 1, b: 2 }"),
    ([(2, Decimal("1.0"))], pa.map_(pa.int32(), pa.decimal128(3, 1)), "[{ key: 2, value: 1 }]"),
    (None, pa.int32(), "null"),
]

UNLIKE: list[tuple[Any, pa.DataType, str]] = [
    (Decimal("12.50"), pa.decimal128(10, 2), "12.51"),
    (7, pa.int32(), "'7'"),
    (7, pa.int32(), "7.0"),
    (1, pa.int32(), "true"),
    (True, pa.bool_(), "1"),
    ("7", pa.string(), "7"),
    ("", pa.string(), "null"),
    (None, pa.string(), "''"),
    (_MOMENT, pa.timestamp("us"), "2026-01-05 06:01:00.500001"),
    (_MOMENT, pa.timestamp("us"), "2026-01-05T06:01:00.5Z"),
    (_MOMENT.replace(tzinfo=UTC), pa.timestamp("us", "UTC"), "2026-01-05T06:01:00.5+01:00"),
    ([1, 2], pa.list_(pa.int64()), "[2, 1]"),
    ({"id": 1, "at": None}, _ROW, "{ id: 1, other: 2 }"),
    ([("a", 1)], pa.map_(pa.string(), pa.int32()), "{ a: 1, b: 2 }"),
]


def both(value: Any, t: pa.DataType, text: str) -> tuple[Any, Any]:
    """The forms of a stored value, and of what stands in a file of cases."""
    (stored,) = plain_values(pa.array([value], t))
    return comparable(stored, t), comparable(parse_yaml(f"v: {text}", {}).data["v"], t)


@pytest.mark.parametrize(("value", "t", "text"), SAME)
def test_a_value_is_what_its_author_writes(value: Any, t: pa.DataType, text: str) -> None:
    stored, written = both(value, t, text)
    assert stored == written


@pytest.mark.parametrize(("value", "t", "text"), UNLIKE)
def test_another_value_or_kind_of_value_is_not(value: Any, t: pa.DataType, text: str) -> None:
    stored, written = both(value, t, text)
    assert stored != written
