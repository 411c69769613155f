"""The source of the soak: its rows follow from its records."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from benchmarks.soaking.schedule import Change, schedule
from benchmarks.soaking.service import Victim
from benchmarks.soaking.source import KINDS, UNDECLARED_LIMIT, Kind, Source

PAIRS = ((Change.REFUSED_COLUMN, Change.MENDED_RULE), (Change.PAUSE, Change.RESUME))
"""Trouble and its end."""


def _replayed(kind: Kind, records: list[Any]) -> dict[int, dict[str, Any]]:
    """The content of a table after these records, by the meaning of its merge engine."""
    rows: dict[int, dict[str, Any]] = {}
    for record in records:
        if record.value is None:
            continue
        event = json.loads(record.value)
        if event["op"] == "d":
            del rows[event["before"]["id"]]
            continue
        row, old = event["after"], rows.get(event["after"]["id"], {})
        assert (event["op"] == "c") == (not old)
        kept = {name: value for name, value in row.items() if value is not None} if kind.leaves_out and old else row
        rows[row["id"]] = {**old, **kept} if kind.leaves_out else row
    return rows


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_rows_are_what_the_records_lead_to(kind: Kind) -> None:
    source = Source(kind, Random(3), keys=50)
    records = source.fill() + source.change(300)
    source.has_note = source.has_large_numbers = True
    records += source.change(300)

    assert source.rows == _replayed(kind, records)
    assert source.columns()[-1] == "note"
    assert any(row["n"] is not None and row["n"] >= UNDECLARED_LIMIT for row in source.rows.values())
    assert any(record.value is None for record in records) == kind.deletes


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_seed_decides_the_records(kind: Kind) -> None:
    one, same, other = (Source(kind, Random(seed), keys=50) for seed in (3, 3, 4))

    records = one.fill() + one.change(100)
    assert same.fill() + same.change(100) == records
    assert other.fill() + other.change(100) != records


def test_the_seed_decides_when_what_happens() -> None:
    steps = schedule(1_000, 17, Random(7))

    assert steps == schedule(1_000, 17, Random(7))
    assert steps != schedule(1_000, 17, Random(8))
    changes = [step.what for step in steps if isinstance(step.what, Change)]
    assert sorted(changes) == sorted(Change)
    for first, second in PAIRS:
        assert changes.index(first) < changes.index(second)
    kills = [step for step in steps if isinstance(step.what, Victim)]
    assert len(kills) == 17 and {step.what for step in kills} == set(Victim)
    assert max(step.batch for step in kills) <= 500, "the second half is one life"
