"""Random histories through rules that compute, filter and mask, against a model that looks at one row at a time."""

from __future__ import annotations

import hashlib
import hmac
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.changelog import replay_strictly
from tests.support.column_rules import HIDDEN, Event, Run

Row = dict[str, Any]
LOOKUP = {"changelog-producer": "lookup"}
INPUT = {"changelog-producer": "input"}
SUMS = {"merge-engine": "aggregation", "fields.amount.aggregate-function": "sum", **LOOKUP}
TYPES = {"id": "INT", "amount": "INT", "status": "STRING", "note": "STRING"}


@dataclass(frozen=True)
class Case:
    """A rule, and what it makes of a row of the source: None for one that is not in the table."""

    rule: Mapping[str, Any]
    options: Mapping[str, str]
    stored: Callable[[Row], Row | None]
    key: tuple[str, ...]
    is_whole: bool
    """Whether the source sends whole old rows."""
    hides: bool = True
    """Whether unchanged notes are left out."""
    columns: tuple[str, ...] = field(default=())


def _computed(row: Row) -> Row | None:
    shout = None if row["note"] is None else row["note"].upper() + "!"
    return {"id": row["id"], "sum": row["amount"], "status": row["status"], "note": row["note"], "shout": shout}


def _filtered(row: Row) -> Row | None:
    return dict(row) if row["status"] == "on" else None


def _moved(row: Row) -> Row | None:
    return {**row, "third": row["amount"] % 3} if row["amount"] > 2 else None


def _masked(row: Row) -> Row | None:
    digest = hmac.new(b"k", str(row["amount"]).encode(), hashlib.sha256).hexdigest()
    note = None if row["note"] is None else "*" * max(len(row["note"]) - 2, 0) + row["note"][-2:]
    note = note if row["note"] is None or len(row["note"]) > 2 else "*" * len(row["note"])
    return {"id": row["id"], "amount": digest, "status": "***", "note": note}


_MOVING = {
    "before": "full",
    "where": "amount > 2",
    "columns": {"types": TYPES, "add": {"third": "amount % 3"}},
    "primary_key": ["third", "id"],
}
CASES = {
    "computed columns": Case(
        {
            "columns": {
                "types": {"id": "INT", "sum": "INT", "status": "STRING", "note": "STRING"},
                "rename": {"amount": "sum"}, "add": {"shout": "upper(note) || '!'"},
            }
        },
        LOOKUP, _computed, ("id",), is_whole=False,
    ),
    "filter by idempotent deletes": Case(
        {"columns": {"types": TYPES}, "where": "status = 'on'"}, LOOKUP, _filtered, ("id",), is_whole=False, hides=False
    ),
    "filter of whole rows": Case(
        {"columns": {"types": TYPES}, "where": "status = 'on'", "before": "full"}, INPUT, _filtered, ("id",),
        is_whole=True,
    ),
    "computed key": Case(_MOVING, LOOKUP, _moved, ("third", "id"), is_whole=True),
    "computed key, changelog of the input": Case(_MOVING, INPUT, _moved, ("third", "id"), is_whole=True),
    "computed partition": Case(
        {**_MOVING, "partition_by": ["third"]}, LOOKUP, _moved, ("third", "id"), is_whole=True
    ),
    "computed partition beside the key": Case(
        {
            "columns": {"types": TYPES, "add": {"third": "amount % 3"}},
            "where": "amount > 2", "primary_key": ["id"], "partition_by": ["third"],
        },
        {**LOOKUP, "bucket": "-1"}, _moved, ("id",), is_whole=False, hides=False,
    ),
    "masks": Case(
        {
            "columns": {
                "types": {"id": "INT", "note": "STRING"},
                "mask": {"amount": {"hash": "sha256", "key": "k"}, "note": {"show_last": 2}, "status": "redact"},
            }
        },
        LOOKUP, _masked, ("id",), is_whole=False,
    ),
}  # fmt: skip


@dataclass
class _Source:
    """A table of a database, and the events of its changes."""

    case: Case
    rows: dict[int, Row] = field(default_factory=dict)

    def event(self, key: int, amount: int, status: str, note: str | None, is_delete: bool) -> Event:
        old = self.rows.get(key)
        before = old if self.case.is_whole else None
        if old is not None and is_delete:
            del self.rows[key]
            return "d", old if self.case.is_whole else {**dict.fromkeys(old), "id": key}, None
        new = {"id": key, "amount": amount, "status": status, "note": note}
        self.rows[key] = new
        if old is None:
            return "c", None, new
        is_unsent = self.case.hides and old["note"] == note and note is not None
        return "u", before, {**new, "note": HIDDEN} if is_unsent else new


_changes = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 6),
        st.sampled_from(["on", "off"]),
        st.sampled_from([None, "a", "bcd", "grün"]),
        st.integers(0, 4).map(lambda dice: dice == 0),
    ),
    min_size=1,
    max_size=24,
)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(changes=_changes, size=st.integers(1, 9))
def test_a_table_is_what_each_row_of_its_source_makes_of_it(name: str, changes: list[Any], size: int) -> None:
    case = CASES[name]
    source = _Source(case)
    events = [source.event(*change) for change in changes]
    with tempfile.TemporaryDirectory() as directory:
        run = Run(Path(directory), case.rule, **case.options)

        run.take(*(events[at : at + size] for at in range(0, len(events), size)))

        wanted = [stored for row in source.rows.values() if (stored := case.stored(row)) is not None]
        assert run.reasons == {}
        if not run.has_table:
            return
        assert sorted(run.rows, key=repr) == sorted(({n: r[n] for n in run.types} for r in wanted), key=repr)
        replayed = replay_strictly((rows for _, rows in run.table.changes()), case.key)
        assert sorted(map(dict, replayed.values()), key=repr) == sorted(run.rows, key=repr)


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(changes=_changes, size=st.integers(1, 9))
def test_sums_over_a_filter_and_a_computed_key_are_those_of_the_rows(changes: list[Any], size: int) -> None:
    rule = {
        "before": "full",
        "where": "amount > 2",
        "primary_key": ["state"],
        "columns": {"types": TYPES, "keep": ["amount"], "add": {"state": "upper(status)"}},
    }
    source = _Source(Case(rule, SUMS, _moved, ("state",), is_whole=True, hides=False))
    events = [source.event(*change) for change in changes]
    with tempfile.TemporaryDirectory() as directory:
        run = Run(Path(directory), rule, **SUMS)

        run.take(*(events[at : at + size] for at in range(0, len(events), size)))

        sums: dict[str, int] = {}
        for row in source.rows.values():
            if row["amount"] > 2:
                sums[row["status"].upper()] = sums.get(row["status"].upper(), 0) + row["amount"]
        assert run.reasons == {}
        found = {row["state"]: row["amount"] or 0 for row in run.rows}
        assert {state: total for state, total in found.items() if total} == sums
