"""Plain values keep every value apart and have one spelling each."""

from typing import Any

import pytest

from paimon_table.types import parse_type
from tests.support.plain_values import canonical, sort_key


@pytest.mark.parametrize(
    ("column_type", "written", "plain"),
    [
        ("DECIMAL(10, 2)", "1.5", "1.50"),
        ("DECIMAL(38, 10)", "9999999999999999999999999999.9999999999", "9999999999999999999999999999.9999999999"),
        ("DATE", "0001-01-01", "0001-01-01"),
        ("TIME(3)", "01:02:03.004", "01:02:03.004"),
        ("TIMESTAMP(3)", "2024-01-01", "2024-01-01 00:00:00.000"),
        ("TIMESTAMP(9)", "1969-12-31 23:59:59.999999999", "1969-12-31 23:59:59.999999999"),
        ("TIMESTAMP_LTZ(6)", "2024-01-01T10:00:00.5Z", "2024-01-01 10:00:00.500000"),
        ("BYTES", "0x00ff", "0x00ff"),
        ("DOUBLE", "NaN", "NaN"),
        ("FLOAT", "-Infinity", "-Infinity"),
        ("ARRAY<ARRAY<INT>>", [[1, None], None], [[1, None], None]),
        ("MULTISET<STRING>", {"x": 2}, [["x", 2]]),
        (
            "MAP<STRING, ROW<a INT, b TIMESTAMP(9)>>",
            {"b": [1, "2020-01-01 00:00:00.1"], "a": None},
            [["a", None], ["b", [1, "2020-01-01 00:00:00.100000000"]]],
        ),
    ],
)
def test_values_have_one_spelling(column_type: str, written: Any, plain: Any) -> None:
    assert canonical(written, parse_type(column_type)) == plain
    assert canonical(plain, parse_type(column_type)) == plain


def test_sort_key_tells_all_values_apart() -> None:
    values = [None, True, 1, "1", -0.0, 0.0, [], [None], ""]
    assert len({sort_key(value) for value in values}) == len(values)
