"""Tables whose rows are ordered by their place in the log of the source (`order_by: source_position`)."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table import Table
from pipelines.tables.tables import PipelineTables
from sources.changes import RECORD_SCHEMA
from tests.support.changelog import replay_strictly
from tests.support.local_batches import pipeline_tables, processed, reported_batches, shop_config, task_settings
from tests.support.source_content import open_table

RULE: dict[str, object] = {
    "match": {"table": "items"},
    "into": "lake.items",
    "order_by": "source_position",
    "merge_sources": "same_rows",
}
TOPICS = ("shop.public.items", "again.public.items")


@dataclass(frozen=True)
class Change:
    """One event of a history, with its place in the log."""

    op: str
    key: int
    n: int | None
    source: Mapping[str, Any]

    @property
    def value(self) -> dict[str, Any]:
        row = {"id": self.key, "n": self.n}
        source = {"db": "shop", "schema": "public", "table": "items", "ts_ms": 1, **self.source}
        is_gone = self.op == "d"
        return {"before": {"id": self.key} if is_gone else None, "after": None if is_gone else row, "source": source,
                "op": self.op}  # fmt: skip


def postgresql(number: int) -> dict[str, Any]:
    return {
        "connector": "postgresql",
        "lsn": 1000 + number,
        "sequence": json.dumps([str(990 + number), str(1000 + number)]),
    }


def batch(
    changes: Sequence[Change], topic: str = TOPICS[0], first_offset: int = 0, partition: int = 0
) -> pa.RecordBatch:
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "offset": first_offset + i,
            "timestamp": 0,
            "key": json.dumps({"id": change.key}).encode(),
            "value": json.dumps(change.value).encode(),
            "headers": None,
        }
        for i, change in enumerate(changes)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def content(table: Table) -> dict[int, int | None]:
    return {row["id"]: row["n"] for row in table.to_arrow().to_pylist()}


def shuffled(r: random.Random, changes: Sequence[Change]) -> list[pa.RecordBatch]:
    """Batches with all events twice, in any order, each time through one of two topics with two partitions."""
    places = [(topic, partition) for topic in TOPICS for partition in (0, 1)]
    offsets = dict.fromkeys(places, 0)
    stream = [*r.sample(changes, len(changes)), *r.sample(changes, len(changes))]
    found = []
    while stream:
        part, stream = stream[: (size := r.randint(1, 12))], stream[size:]
        shares = [(r.choice(places), change) for change in part]
        batches = []
        for place in places:
            own = [change for at, change in shares if at == place]
            if own:
                batches.append(batch(own, place[0], offsets[place], place[1]))
                offsets[place] += len(own)
        found.append(joined(batches))
    return found


def drawn_history(r: random.Random, count: int, place: Callable[[int], dict[str, Any]]) -> list[Change]:
    """Changes of a few rows, the last of which are gone more often than not."""
    there: set[int] = set()
    found = []
    for number in range(count):
        key = r.randrange(6)
        if key in there and r.random() < 0.5:
            found.append(Change("d", key, None, place(number)))
            there.discard(key)
        else:
            found.append(Change("u" if key in there else "c", key, number, place(number)))
            there.add(key)
    return found


def folded(changes: Sequence[Change]) -> dict[int, int | None]:
    rows: dict[int, int | None] = {}
    for change in changes:
        if change.op == "d":
            rows.pop(change.key, None)
        else:
            rows[change.key] = change.n
    return rows


OPTIONS: list[dict[str, str]] = [
    {"bucket": "1", "changelog-producer": "none", "num-sorted-run.compaction-trigger": "2"},
    {"bucket": "2", "changelog-producer": "none", "full-compaction.delta-commits": "1"},
    {"bucket": "1", "changelog-producer": "lookup", "num-levels": "2"},
    {"bucket": "-1", "changelog-producer": "lookup"},
    {"bucket": "1", "changelog-producer": "full-compaction", "full-compaction.delta-commits": "2"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_any_order_of_records_gives_the_fold_in_the_order_of_the_source(
    tmp_path: Path, options: dict[str, str]
) -> None:
    for seed in range(3):
        r, root = random.Random(seed), tmp_path / str(seed)
        changes = drawn_history(r, 40, postgresql)
        tables = PipelineTables(shop_config(root, [RULE], options), "tidemark-shop-test")

        processed(tables, shuffled(r, changes), task_settings(root))

        table, expected = open_table(tables, "items"), folded(changes)
        assert content(table) == expected, f"seed {seed}"
        if options["changelog-producer"] != "none":
            told = replay_strictly((rows for _, rows in table.changes()), ["id"])
            is_told = options["changelog-producer"] == "lookup"
            assert not is_told or {key: row["n"] for (key,), row in told.items()} == expected, f"seed {seed}"


def test_an_older_event_never_undoes_a_newer_update_or_delete(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, [RULE])
    newer = [
        Change("u", 1, 10, postgresql(50)),
        Change("d", 2, None, postgresql(60)),
        Change("c", 3, 1, postgresql(70)),
    ]
    older = [Change("c", 1, 1, postgresql(5)), Change("u", 2, 2, postgresql(6)), Change("u", 3, 3, postgresql(80))]

    reported_batches(tables, [batch(newer), batch(older, TOPICS[1])], tmp_path)

    assert content(open_table(tables, "items")) == {1: 10, 3: 3}
