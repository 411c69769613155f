"""Conditions of `table scan --where`."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from paimon_table.errors import ConfigError
from pipelines.inspect.where import parse_condition

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "name": pa.array(["a", "it's", None, "d"], pa.string()),
        "total": pa.array([Decimal("1.50"), Decimal("2.00"), None, Decimal("-3.25")], pa.decimal128(10, 2)),
        "day": pa.array([date(2024, 1, d) for d in (1, 2, 3, 4)], pa.date32()),
        "at": pa.array([datetime(2024, 1, 1, h, tzinfo=UTC) for h in (1, 2, 3, 4)], pa.timestamp("us", "UTC")),
        "ok": pa.array([True, False, None, True], pa.bool_()),
        "raw": pa.array([b"x", b"y", b"z", None], pa.binary()),
        "odd name": pa.array([1.5, 2.5, float("nan"), None], pa.float64()),
        "time": pa.array([time(10), time(10, 0, 0, 500_000), time(23, 59, 59), None], pa.time32("ms")),
        "small": pa.array([1, -128, 127, None], pa.int8()),
        "big": pa.array([2**53, 2**53 + 1, -(2**63), None], pa.int64()),
        "fine": pa.array([0, 1, 2, None], pa.timestamp("ns")),
        "real": pa.array([0.5, float("inf"), float("nan"), None], pa.float32()),
    }
)


def matching(condition: str) -> list[int]:
    found = ds.dataset(ROWS).to_table(filter=parse_condition(condition, ROWS.schema))
    return list(found.column("id").to_pylist())


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("id = 2", [2]),
        ("id != 2 and id <> 3", [1, 4]),
        ("id >= 2 AND id < 4", [2, 3]),
        ("id > 2.5", [3, 4]),
        ("id = -1 OR id = +1", [1]),
        ("name = 'it''s'", [2]),
        ("name > 'a'", [2, 4]),
        ("name IS NULL", [3]),
        ("name IS NOT NULL AND NOT id IN (1, 2)", [4]),
        ("name NOT IN ('a', 'd')", [2]),
        ("name IN ('a', 'd')", [1, 4]),
        ("NOT name = 'a'", [2, 4]),
        ("total = 1.5", [1]),
        ("total <= '-3.25'", [4]),
        ("day >= '2024-01-03'", [3, 4]),
        ("at = '2024-01-01 02:00:00'", [2]),
        ("at >= '2024-01-01' AND fine >= '1970-01-01'", [1, 2, 3]),
        ("at > '2024-01-01T02:00:00Z' AND at < '2024-01-01T05:00:00+01:00'", [3]),
        ("ok = true", [1, 4]),
        ("ok = FALSE or ok is null", [2, 3]),
        ("raw = 'y'", [2]),
        ("`odd name` < 2", [1]),
        ('"odd name" >= 2.5e0', [2]),
        ("id = 1 OR id = 2 AND name = 'a'", [1]),
        ("(id = 1 OR id = 2) AND name = 'a'", [1]),
        ("NOT name IN ('a')", [2, 4]),
        ("time = '10:00'", [1]),
        ("time > '10:00:00' AND time <= '23:59:59'", [2, 3]),
        ("time IN ('10:00:00.500', '23:59:59.0')", [2, 3]),
        ("time NOT IN ('10:00:00.5')", [1, 3]),
        ("`odd name` = 'NaN'", [3]),
        ("`odd name` != 'nan'", [1, 2]),
        ("`odd name` IN ('NaN', 1.5)", [1, 3]),
        ("NOT `odd name` IN ('NaN')", [1, 2]),
        ("real = 'inf' OR real = 'NaN'", [2, 3]),
        ("raw = X'79'", [2]),
        ("raw >= x'79' AND raw != X''", [2, 3]),
        ("raw IN (X'78', 'z')", [1, 3]),
        ("id IN (2.5)", []),
        ("id NOT IN (2.5, 2.0)", [1, 3, 4]),
        ("small < 300", [1, 2, 3]),
        ("small > -1e3", [1, 2, 3]),
        ("small >= 128 OR small = 1000", []),
        ("small != 1.5", [1, 2, 3]),
        ("small > -128.5 AND small <= 126.5", [1, 2]),
        ("fine IN ('1970-01-01 00:00:00.000000001', '1970-01-02')", [2]),
        ("big > 9007199254740992.5", [2]),
        ("big = 9007199254740993.0", [2]),
        ("big >= -9223372036854775808 AND big < 0", [3]),
    ],
)
def test_a_condition_selects_rows_as_sql_does(condition: str, ids: list[int]) -> None:
    assert matching(condition) == ids


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("nmae = 'a'", "character 1: there is no column 'nmae'; did you mean 'name'?"),
        ("id = ", "character 6: expected a constant, found 'the end'"),
        ("id = name", "character 6: expected a constant, found 'name'; put texts in single quotes"),
        ("id = 'x'", "character 6: 'x' cannot be compared with column id, which is int64"),
        ("id", "character 3: expected a comparison after column id"),
        ("id = 1 name = 'a'", "character 8: unexpected 'name'; join conditions with AND or OR"),
        ("id = 1 AND", "character 11: expected a column, found the end"),
        ("(id = 1", "character 8: expected ')', found the end"),
        ("name = NULL", "character 8: nothing equals NULL; write name IS NULL"),
        ("id = 1; drop", "character 7: unexpected ';'"),
        ("ok = 1", "character 6: 1 cannot be compared with column ok, which is bool"),
        ("id IN ()", "character 8: expected a constant, found ')'"),
        ("`odd name` < 'NaN'", "NaN is neither smaller nor larger than a number; compare with = 'NaN' or != 'NaN'"),
        ("`odd name` = NaN", "expected a constant, found 'NaN'; put texts in single quotes"),
        ("id = 'NaN'", "character 6: 'NaN' cannot be compared with column id, which is int64"),
        ("small IN (1, 'inf')", "character 14: 'inf' cannot be compared with column small, which is int8"),
        ("real < 1e300", "1e300 cannot be compared with column real, which is float: it is outside the range"),
        ("total > 'NaN'", "'NaN' cannot be compared with column total, which is decimal128(10, 2)"),
        ("time = 36000", "which is time32[ms]: write times as '10:15', '10:15:30' or '10:15:30.123'"),
        (
            "time IN ('10:00', '24:00')",
            "character 19: '24:00' cannot be compared with column time, which is time32[ms]",
        ),
        (
            "time > '10:00:00.0005'",
            "it has more than three fractional digits of a second, but the column holds at most three",
        ),
        (
            "raw = X'7'",
            "X'7' cannot be compared with column raw, which is binary: bytes are pairs of hexadecimal digits",
        ),
        ("raw = 7", "write bytes as X'00ff' or as a text in single quotes"),
        ("name = X'61'", "X'61' cannot be compared with column name, which is string"),
        ("id = X'61'", "X'61' cannot be compared with column id, which is int64"),
        ("day = '2024-13-01'", "cannot be compared with column day, which is date32"),
    ],
)
def test_a_wrong_condition_is_refused_at_its_place(condition: str, told: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_condition(condition, ROWS.schema)
    assert told in str(refusal.value)
    assert str(refusal.value).startswith("--where, character ")


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("zero", ["0", "0.0", "-0.0"])
def test_both_zeros_are_found_by_comparison_and_by_list(type_: pa.DataType, zero: str) -> None:
    rows = pa.table({"id": [1, 2, 3, 4], "x": pa.array([0.0, -0.0, 1.5, None], type_)})

    def ids(condition: str) -> list[int]:
        found = ds.dataset(rows).to_table(filter=parse_condition(condition, rows.schema))
        return list(found.column("id").to_pylist())

    assert ids(f"x = {zero}") == ids(f"x IN ({zero}, 7)") == [1, 2]
    assert ids(f"x != {zero}") == ids(f"x NOT IN ({zero}, 7)") == [3]


@pytest.mark.slow
@pytest.mark.parametrize("join", ["OR", "AND"])
def test_a_thousand_comparisons_are_evaluated_and_more_refused(join: str) -> None:
    many = [f"id {'=' if join == 'OR' else '!='} {number}" for number in range(3, 1003)]
    assert matching(f" {join} ".join(many)) == ([3, 4] if join == "OR" else [1, 2])
    with pytest.raises(ConfigError, match=r"more than 1,000 comparisons; write values of one column as COLUMN IN"):
        parse_condition(f" {join} ".join([*many, "id = 1"]), ROWS.schema)
    assert matching(f"id IN ({', '.join(map(str, range(3, 20_000)))})") == [3, 4]


@pytest.mark.parametrize("text", ["(" * 5000 + "id = 1" + ")" * 5000, "NOT " * 5000 + "id = 1"], ids=["()", "NOT"])
def test_conditions_that_are_nested_too_deeply_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="more than 100 conditions are nested; write a flatter condition"):
        parse_condition(text, ROWS.schema)
    assert matching("(" * 90 + "id = 1" + ")" * 90) == [1]
