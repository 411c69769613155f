"""Bad records of a real broker's topic, read again once the rule is mended: sums show one that comes twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paimon_table import Table
from tests.integration.orders_pipeline import events, row, written
from tests.stack.topics import Topics
from tests.support.command import Done, tidemark_process

pytestmark = pytest.mark.stack

SUMS = "merge-engine: aggregation, fields.n.aggregate-function: sum, changelog-producer: lookup"
WIDE = 3_000_000_000
TOPIC = "good-by-now.public.orders"


def done(*words: str) -> Done:
    one = tidemark_process(*words)
    assert one.returncode == 0, one.stdout + one.stderr
    return one


def test_they_are_counted_once_and_leave_the_quarantine(tmp_path: Path, kafka: Topics) -> None:
    kafka.create(TOPIC, 2)
    root = f"{tmp_path}/warehouse/lake.db/orders"

    def file(number_type: str) -> str:
        where = (tmp_path, kafka.bootstrap_servers, TOPIC)
        return str(written(*where, options=SUMS, number_type=number_type, most_records=20))

    def rows() -> dict[int, Any]:
        return {r["id"]: r["n"] for r in Table.open(root).to_arrow().to_pylist()}

    kafka.produce(TOPIC, events([*map(row, range(40)), row(1, 5)]))
    kafka.produce(TOPIC, events([row(1, WIDE), row(2, 7), row(100, WIDE), row(3, WIDE)]))
    done("run", file("INT"), "--once")
    expected = {**{key: key for key in range(40)}, 1: 6, 2: 9}
    assert rows() == expected
    assert "3 records of 1 table" in done("quarantine", "list", file("INT")).stderr

    told = done("replay", file("BIGINT"), "--table", "lake.orders", "--rebuild").stdout
    assert "3 records removed from the quarantine: the table has them now" in told
    done("run", file("BIGINT"), "--once")
    expected |= {1: 6 + WIDE, 3: 3 + WIDE, 100: WIDE}
    assert rows() == expected
    done("quarantine", "retry", file("BIGINT"))
    assert rows() == expected
    assert "no records in" in done("quarantine", "list", file("BIGINT")).stderr
