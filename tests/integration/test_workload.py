"""The random workload itself: it does every kind of change, and its comparison finds what differs."""

import json
from decimal import Decimal
from typing import Any

import pytest

from tests.integration.comparison import differences, source_rows
from tests.integration.source_tables import EVERY_TYPE, ORDER_LINES, TABLES
from tests.integration.workload import MARKER_TABLE, new_workload
from tests.stack.connect import Connect
from tests.stack.postgres import Postgres
from tests.stack.topics import Topics

pytestmark = [pytest.mark.stack, pytest.mark.slow]


def test_the_seed_decides_the_content(postgres: Postgres) -> None:
    contents = []
    for database in ("workload_one", "workload_two"):
        workload = new_workload(postgres, database, seed=7)
        workload.fill(20)
        workload.run(150)
        contents.append([source_rows(workload.connection, table) for table in TABLES])
        assert set(workload.counts) >= {
            "insert",
            "update",
            "delete",
            "key change",
            "replace",
            "key swap",
            "rolled back",
        }
        workload.connection.close()

    for table, one, other in zip(TABLES, *contents, strict=True):
        assert differences(table, one, other) == []
        assert one, f"{table.name} is not empty"


def test_every_change_reaches_the_topics(kafka: Topics, postgres: Postgres, connect: Connect) -> None:
    workload = new_workload(postgres, "workload_cdc", seed=11)
    workload.fill(10)
    connect.capture("workload_cdc", postgres, "workload_cdc")
    workload.run(60)
    workload.mark_end(1)
    kafka.wait_for_records(f"workload_cdc.public.{MARKER_TABLE}", 1)
    connect.release("workload_cdc")

    for table in TABLES:
        present: set[bytes | None] = set()
        for record in kafka.read_all(f"workload_cdc.public.{table.name}"):
            gone = record.value is None or json.loads(record.value)["after"] is None
            (present.discard if gone else present.add)(record.key)
        rows = source_rows(workload.connection, table)
        names = [column.name for column in table.key]
        expected = {json.dumps({n: row[n] for n in names}, separators=(",", ":"), ensure_ascii=False) for row in rows}
        assert {key.decode() for key in present if key is not None} == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"quantity": 2}, "quantity = 2, wanted 1"),
        ({"line_no": 9}, "no row"),
        ({"unit_price": Decimal("1.5")}, "unit_price"),
        ({"extra": 1}, "columns"),
    ],
)
def test_the_comparison_names_what_differs(change: dict[str, Any], expected: str) -> None:
    row = {"order_id": 1, "line_no": 1, "quantity": 1, "unit_price": Decimal("1.50"), "note": None, "changed_at": None}

    assert differences(ORDER_LINES, [row], [row]) == []
    assert expected in differences(ORDER_LINES, [row], [{**row, **change}])[0]


def test_single_precision_and_nan_compare_equal() -> None:
    row: dict[str, Any] = dict.fromkeys((column.name for column in EVERY_TYPE.columns), None)
    source = {**row, "id": 1, "c_real": 1.1, "c_double": float("nan")}
    stored = {**row, "id": 1, "c_real": 1.100000023841858, "c_double": float("nan")}

    assert differences(EVERY_TYPE, [source], [stored]) == []
