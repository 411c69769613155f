"""Snapshots get their watermark from a column with the time of events, where the rule says so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_table import Table
from paimon_table.errors import ConfigError
from pipelines.config.watermark import Watermark
from pipelines.tables.tables import PipelineTables
from pipelines.tables.watermarks import Watermarks
from sources.changes import RECORD_SCHEMA
from sources.debezium_json.decoder import DebeziumJsonDecoder
from sources.expressions.decoder import TransformingDecoder
from tests.support.local_batches import pipeline_tables, run_batches

RULE: dict[str, object] = {
    "match": {"table": "orders"},
    "into": "lake.orders",
    "columns": {"types": {"placed_at": "TIMESTAMP(6)"}},
    "watermark": {"column": "placed_at", "delay": "5 s"},
}
NOON_MS = 1_717_243_200_000
DAY_US = 86_400_000_000


def second(n: float) -> int:
    """Microseconds since 1970 of a second after the noon of the tests."""
    return NOON_MS * 1000 + round(n * 1e6)


Event = tuple[int, int, int | None]
"""Partition, offset (the id of the row too), the time in its row."""


def batch(*events: Event, op: str = "c", source_ms: int = NOON_MS) -> pa.RecordBatch:
    rows = []
    for partition, offset, placed_at in events:
        row = {"id": offset, "placed_at": placed_at}
        source = {"db": "shop", "schema": "public", "table": "orders", "ts_ms": source_ms}
        value = {"before": row if op == "d" else None, "after": None if op == "d" else row, "op": op, "source": source}
        place = {"topic": "shop.public.orders", "partition": partition, "offset": offset, "timestamp": 0}
        key = json.dumps({"id": offset}).encode()
        rows.append({**place, "key": key, "value": json.dumps(value).encode(), "headers": None})
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def tables_in(root: Path, **rule: object) -> PipelineTables:
    return pipeline_tables(root, [{**RULE, **rule}], **{"changelog-producer": "lookup"})


def watermarks(root: Path) -> list[int | None]:
    """Those of the snapshots in their order, in seconds after noon."""
    table = Table.open(f"{root}/warehouse/lake.db/orders")
    found = [snapshot.watermark for snapshot in reversed(list(table.snapshots.newest_first()))]
    return [None if at is None else (at - NOON_MS) // 1000 for at in found]


def kinds(root: Path) -> Sequence[str]:
    table = Table.open(f"{root}/warehouse/lake.db/orders")
    return [str(snapshot.commit_kind) for snapshot in reversed(list(table.snapshots.newest_first()))]


def test_the_partition_that_is_furthest_behind_tells_and_the_watermark_never_goes_back(tmp_path: Path) -> None:
    batches = [
        batch((0, 1, second(100)), (0, 2, second(90)), (1, 3, second(60))),
        batch((0, 4, second(200))),  # partition 1 is not idle yet
        batch((1, 5, second(150.999))),
        batch((1, 6, second(10)), (0, 7, None)),  # late, and no time at all
    ]
    run_batches(tables_in(tmp_path), batches, tmp_path)
    assert kinds(tmp_path) == ["APPEND", "COMPACT"] * 4
    assert watermarks(tmp_path) == [55, 55, 55, 55, 145, 145, 145, 145]
    assert Table.open(f"{tmp_path}/warehouse/lake.db/orders").to_arrow().num_rows == 7


def test_times_in_the_future_do_not_count(tmp_path: Path) -> None:
    far = second(0) + 300_000 * DAY_US
    run_batches(tables_in(tmp_path), [batch((0, 1, second(50)), (0, 2, far)), batch((0, 3, far))], tmp_path)
    assert watermarks(tmp_path) == [45, 45, 45, 45]


def test_without_any_time_a_snapshot_has_no_watermark(tmp_path: Path) -> None:
    run_batches(tables_in(tmp_path), [batch((0, 1, None))], tmp_path)
    assert watermarks(tmp_path) == [None, None]


def test_the_time_of_the_source_is_a_computed_column(tmp_path: Path) -> None:
    tables = tables_in(tmp_path, columns={"add": {"changed_at": "$source_time"}}, watermark={"column": "changed_at"})
    records = batch((0, 1, None), source_ms=NOON_MS + 7_000)
    run_batches(tables, [records], tmp_path, decoder=TransformingDecoder(DebeziumJsonDecoder(), {}))
    assert watermarks(tmp_path) == [7, 7]


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (
            {"watermark": {"column": "placed_a"}},
            r"watermark\.column: table lake\.orders has no column 'placed_a'; did you mean 'placed_at'\?",
        ),
        (
            {"watermark": {"column": "id"}},
            r"watermark\.column: id of table lake\.orders is BIGINT NOT NULL, which is not a time. Declare `id: TIMEST",
        ),
    ],
    ids=["missing", "no time"],
)
def test_a_column_that_tells_no_time_is_refused_before_the_table_is_made(
    tmp_path: Path, rule: dict[str, object], told: str
) -> None:
    tables = tables_in(tmp_path, **rule)
    with pytest.raises(ConfigError, match=told):
        run_batches(tables, [batch((0, 1, second(1)))], tmp_path)
    assert not (tmp_path / "warehouse/lake.db/orders").exists()


MARK = Watermark(column="at", delay=timedelta(milliseconds=3), idle=timedelta(milliseconds=20))


HISTORIES = st.lists(st.tuples(st.integers(0, 15), st.dictionaries(st.integers(0, 2), st.integers(0, 99))))
"""Batches: how long after the one before, and the newest time that each partition brings."""


@pytest.mark.slow
@given(HISTORIES)
def test_the_watermark_is_that_of_the_slowest_partition_that_is_not_idle(
    history: list[tuple[int, dict[int, int]]],
) -> None:
    clock, found = 0, None
    marks = Watermarks(lambda: clock)
    brought_at: list[tuple[int, int, int]] = []
    for wait_ms, brought in history:
        clock += wait_ms
        brought_at += ((clock, partition, newest) for partition, newest in brought.items())
        found = marks.next("t", MARK, {("topic", partition): newest for partition, newest in brought.items()})
    awake = {partition for at, partition, _ in brought_at if clock - at <= 20}
    newest_of = [max(newest for _, partition, newest in brought_at if partition == one) for one in awake]
    assert found == (min(newest_of) - 3 if newest_of else None)
