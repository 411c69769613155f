"""The three ways that rows are read give the same: split by shape, parsed by Arrow, parsed one by one."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from sources.changes import Decoded, SourceTable
from sources.upsert_json.metadata import FlatRows, metadata
from sources.upsert_json.row_split import split_rows
from tests.support.envelope_records import target
from tests.support.row_records import TOPIC, decoded, rows_of

GOALS = {
    SourceTable(TOPIC, database, "public", name): target(id="INT NOT NULL", v="STRING", n="DOUBLE")
    for database in (None, "shop")
    for name in ("orders", "t1", "t2", "Zürich")
}
VALUES: dict[str, list[Any]] = {
    "__op": ["c", "u", "r", "d", None, "x", 5],
    "__deleted": ["false", "true", None, True, 1, "no"],
    "__table": ["t1", "t2", "orders", "Zürich", None],
    "__db": ["shop", None],
    "__lsn": [1, 26566224, None],
    "__source_ts_ms": [1795297252072, 1795297252999, 5, None, "7"],
    "__ts_ms": [1795297252080, None],
    "__ts_us": [1795297252080001, None],
}


TEXTS = ["a", None, 'x","__op":"d', "é", '{"__op":"d","n":null}', '[1,"\\"__deleted\\":true"]', "null"]
"""Columns of JSON documents are texts too."""


def drawn(r: random.Random) -> dict[str, Any]:
    row: dict[str, Any] = {"id": r.randrange(50), "v": r.choice(TEXTS), "n": r.random()}
    among = {"__deleted": "true"} if r.random() < 0.05 else {}
    odd = r.random() < 0.15
    names = [name for name in VALUES if r.random() < 0.9] if odd else [*VALUES]
    found = {name: VALUES[name][0] for name in names}
    table = {"__table": r.choice(VALUES["__table"][:3])}
    behind = {**found, **table, **({name: r.choice(VALUES[name]) for name in names} if odd else {})}
    return {**among, **row, **{name: value for name, value in behind.items() if name not in among}}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_all_ways_give_the_same(seed: int) -> None:
    r = random.Random(seed)
    rows = [({"id": row["id"]}, row) for row in (drawn(r) for _ in range(200))]
    batch = rows_of(*rows)
    split = split_rows(batch.column("value"), FlatRows(metadata("__", "auto")))
    assert split is not None and len(split.indices) > 100
    whole = outcome(decoded(batch, GOALS))

    singly = [outcome(decoded(rows_of(row, first=at), GOALS)) for at, row in enumerate(rows, 100)]
    spaced = [(key, b" " + json.dumps(row, ensure_ascii=False).encode()) for key, row in rows]

    assert whole == sorted(line for lines in singly for line in lines)
    assert whole == outcome(decoded(rows_of(*spaced), GOALS))
    assert len(whole) == len(rows)


def outcome(found: Decoded) -> list[tuple[int, str]]:
    """What became of each record."""
    lines = [
        (row["_OFFSET"], f"{change.source} {row['_VALUE_KIND']} {row['id']} {row['v']} {row['n']}")
        for change in found.changes
        for row in change.rows.to_pylist()
    ]
    return sorted([*lines, *((row.offset, row.reason) for row in found.quarantine)])


@pytest.mark.slow
def test_times_are_those_of_the_source_before_those_of_the_connector() -> None:
    log = {s: target("", id="INT", v="STRING") for s in GOALS}
    r = random.Random(5)
    rows = [({"id": 1}, drawn(r)) for _ in range(100)]
    for way in (rows, [(key, b" " + json.dumps(row).encode()) for key, row in rows]):
        found = decoded(rows_of(*way), {s: _logged(goal) for s, goal in log.items()})
        times = {
            row["event_offset"]: row["event_time"] and round(row["event_time"].timestamp() * 1000)
            for change in found.changes
            for row in change.rows.to_pylist()
        }
        assert times == {at: _time(row) for at, (_, row) in enumerate(rows, 100) if at in times}
        assert len(times) > 50


def _logged(goal: Any) -> Any:
    return replace(goal, on_change="log")


def _time(row: dict[str, Any]) -> int | None:
    """As the definition of the format has it."""
    for name, per_ms in (("__source_ts_ms", 1), ("__ts_ms", 1), ("__source_ts_us", 1000), ("__ts_us", 1000)):
        if row.get(name) is not None:
            return int(row[name]) // per_ms
    return None
