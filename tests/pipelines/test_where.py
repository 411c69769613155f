"""Conditions of `table scan --where`."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from paimon_table.errors import ConfigError
from pipelines.where import parse_condition

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
        ("at > '2024-01-01T02:00:00Z' AND at < '2024-01-01T05:00:00+01:00'", [3]),
        ("ok = true", [1, 4]),
        ("ok = FALSE or ok is null", [2, 3]),
        ("raw = 'y'", [2]),
        ("`odd name` < 2", [1]),
        ('"odd name" >= 2.5e0', [2]),
        ("id = 1 OR id = 2 AND name = 'a'", [1]),
        ("(id = 1 OR id = 2) AND name = 'a'", [1]),
    ],
)
def test_a_condition_selects_rows_as_sql_does(condition: str, ids: list[int]) -> None:
    assert matching(condition) == ids


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("nmae = 'a'", "character 1: there is no column 'nmae'; did you mean 'name'?"),
        ("id = ", "character 6: expected a constant, found 'the end'"),
        ("id = name", "character 6: expected a constant, found 'name'; texts stand in single quotes"),
        ("id = 'x'", "character 6: 'x' cannot be compared with column id, which is int64"),
        ("id", "character 3: expected a comparison after column id"),
        ("id = 1 name = 'a'", "character 8: unexpected 'name'; join conditions with AND or OR"),
        ("id = 1 AND", "character 11: expected a column, found the end"),
        ("(id = 1", "character 8: expected ')', found the end"),
        ("name = NULL", "character 8: nothing equals NULL; write name IS NULL"),
        ("id = 1; drop", "character 7: unexpected ';'"),
        ("ok = 1", "character 6: 1 cannot be compared with column ok, which is bool"),
        ("id IN ()", "character 8: expected a constant, found ')'"),
        ("day = '2024-13-01'", "cannot be compared with column day, which is date32"),
    ],
)
def test_a_wrong_condition_is_refused_at_its_place(condition: str, told: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_condition(condition, ROWS.schema)
    assert told in str(refusal.value)
    assert str(refusal.value).startswith("--where, character ")
