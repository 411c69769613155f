"""Tables that keep every version of a row (`history: scd2`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table import Table
from pipelines.config.config import PipelineConfig
from pipelines.tables.tables import PipelineTables
from sources.changes import RECORD_SCHEMA
from tests.support.changelog import replay_strictly
from tests.support.item_batches import TOPIC
from tests.support.local_batches import processed, shop_config, task_settings
from tests.support.source_content import open_table

RULE: dict[str, object] = {"match": {"table": "items"}, "into": "lake.items", "history": "scd2"}
TOAST = "__debezium_unavailable_value"


@dataclass(frozen=True)
class Change:
    """A change of a row in the source: ``value`` is None for a delete."""

    key: int
    time_ms: int
    offset: int
    value: str | None
    op: str = "u"

    def record(self) -> dict[str, Any]:
        row = None if self.value is None else {"id": self.key, "value": self.value}
        source = {"db": "shop", "schema": "public", "table": "items", "ts_ms": self.time_ms}
        value = {
            "op": "d" if row is None else self.op,
            "before": {"id": self.key} if row is None else None,
            "after": row,
            "source": source,
        }
        return {
            "topic": TOPIC, "partition": 0, "offset": self.offset, "timestamp": 0,
            "key": json.dumps({"id": self.key}).encode(), "value": json.dumps(value).encode(), "headers": None,
        }  # fmt: skip


def batch_of(changes: Sequence[Change]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([change.record() for change in changes], schema=RECORD_SCHEMA)


def at(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def folded(changes: Sequence[Change]) -> dict[tuple[int, int, int], dict[str, Any]]:
    """The rows that a plain fold in the order of the source gives, by key, time and offset."""
    rows: dict[tuple[int, int, int], dict[str, Any]] = {}
    for key in {change.key for change in changes}:
        last: dict[str, Any] | None = None
        for change in sorted({c for c in changes if c.key == key}, key=lambda c: (c.time_ms, c.offset)):
            end = {"valid_to": at(change.time_ms), "valid_to_offset": change.offset, "is_current": False}
            begin = {"id": key, "valid_from": at(change.time_ms), "valid_from_offset": change.offset}
            place = (key, change.time_ms, change.offset)
            if last is not None:
                last |= end
            elif change.value is None:
                rows[place] = {**begin, "value": None, **end}
            last = None
            if change.value is not None:
                held = {"valid_to": None, "valid_to_offset": None, "is_current": True}
                last = rows[place] = {**begin, "value": change.value, **held}
    return rows


def content(table: Table) -> dict[tuple[int, int, int], dict[str, Any]]:
    rows = table.to_arrow().to_pylist()
    return {(r["id"], round(r["valid_from"].timestamp() * 1000), r["valid_from_offset"]): r for r in rows}


def by_key(rows: dict[tuple[int, int, int], dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    return {(key, at(ms), offset): row for (key, ms, offset), row in rows.items()}


OPTIONS: list[dict[str, str]] = [
    {"bucket": "2", "changelog-producer": "lookup"},
    {"bucket": "1", "changelog-producer": "input"},
    {"bucket": "3", "deletion-vectors.enabled": "true", "changelog-producer": "none"},
    {"bucket": "1", "changelog-producer": "none", "num-sorted-run.compaction-trigger": "2"},
]


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[list[list[Change]], dict[str, str]]:
    """Batches of changes in any order, some of them again later. A change has its own offset, also when it is late."""
    count = draw(st.integers(1, 14))
    changes = [
        Change(
            draw(st.integers(1, 2)),
            draw(st.integers(1, 6)),
            offset,
            draw(st.none() | st.sampled_from(["a", "b", "c"])),
            draw(st.sampled_from(["c", "u"])),
        )
        for offset in range(count)
    ]
    order = draw(st.permutations(changes))
    again = draw(st.lists(st.sampled_from(changes), max_size=6))
    whole, batches = [*order, *again], [[Change(0, 1, count, "a", "c")]]
    while whole:
        size = draw(st.integers(1, 6))
        batches.append(whole[:size])
        whole = whole[size:]
    return batches, draw(st.sampled_from(OPTIONS))


def written(root: Path, config: PipelineConfig, batches: Sequence[Sequence[Change]]) -> PipelineTables:
    """Each batch under dump files, whose offsets may come in any order; each runs twice, as after a kill."""
    for number, changes in enumerate(batches):
        for _ in range(2):
            tables = PipelineTables(config, "tidemark-shop-test")
            processed(tables, [batch_of(changes)], task_settings(root), number)
    return tables


@settings(max_examples=10, deadline=None)
@given(arrivals())
def test_whatever_order_changes_arrive_in_the_versions_are_those_of_the_source(
    drawn: tuple[list[list[Change]], dict[str, str]],
) -> None:
    batches, options = drawn
    with TemporaryDirectory() as directory:
        config = shop_config(Path(directory), [RULE], options)
        tables = written(Path(directory), config, batches)

        expected = folded([change for batch in batches for change in batch])
        table = open_table(tables, "items")
        assert content(table) == expected
        if options["changelog-producer"] != "none":
            key = ["id", "valid_from", "valid_from_offset"]
            assert replay_strictly((rows for _, rows in table.changes()), key) == by_key(expected)
