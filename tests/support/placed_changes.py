"""Changes of one source table, items, with their places in the log of the source, in any order of records."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from paimon_table import Table
from sources.changes import RECORD_SCHEMA

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


def mysql(number: int) -> dict[str, Any]:
    """Ten changes a file: positions start over in each, and numbers of files get longer."""
    return {"connector": "mysql", "file": f"bin.{98 + number // 10}", "pos": 4 + number % 10 // 3, "row": number % 3}


def sqlserver(number: int) -> dict[str, Any]:
    lsn = f"0000002a:{number // 3:08x}:0003"
    return {"connector": "sqlserver", "commit_lsn": lsn, "change_lsn": lsn[:-1] + "1", "event_serial_no": number % 3}


def oracle(number: int) -> dict[str, Any]:
    """Changes of transactions that overlap: the later one is committed later."""
    return {"connector": "oracle", "scn": str(2_000_000_000_000 - number % 2), "commit_scn": str(95 + number)}


def mongodb(number: int) -> dict[str, Any]:
    place = {"ts_ms": 1000 * (98 + number // 4), "ord": 1 + number % 4}
    return {"connector": "mongodb", "db": "shop", "collection": "items", **place}


def other(number: int) -> dict[str, Any]:
    return {"connector": "vitess", "ts_ms": 95 + number}


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
