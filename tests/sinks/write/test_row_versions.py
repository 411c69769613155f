"""The versions of rows as a pure function of what is stored and what arrives, against a plain fold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.row_kind import VALUE_KIND, RowKind
from sinks.exchange.target import UNAVAILABLE, WEAK
from sinks.exchange.version_columns import VersionColumns
from sinks.write.row_versions import newest_versions, versions_after
from sinks.write.unsent import Became

NAMES = VersionColumns()
TIME = pa.timestamp("ms", "UTC")
STORED = pa.schema(
    [
        pa.field("id", pa.int32(), False),
        pa.field("value", pa.string()),
        pa.field("large", pa.string()),
        pa.field("valid_from", TIME, False),
        pa.field("valid_to", TIME),
        pa.field("is_current", pa.bool_()),
        pa.field("valid_from_offset", pa.int64(), False),
        pa.field("valid_to_offset", pa.int64()),
    ]
)
ARRIVED = pa.schema(
    [
        ("id", pa.int32()),
        ("value", pa.string()),
        ("large", pa.string()),
        ("valid_from", TIME),
        ("valid_from_offset", pa.int64()),
        (WEAK, pa.bool_()),
        (VALUE_KIND, pa.int8()),
        (UNAVAILABLE, pa.list_(pa.int16())),
    ]
)
Row = tuple[Any, ...]
"""id, value, large, valid_from, valid_to, is_current and the two offsets, with times in milliseconds."""


@dataclass(frozen=True)
class Change:
    id: int
    ms: int
    offset: int
    value: str | None
    """None: a delete."""
    large: str | None = "x"
    is_sent: bool = True
    is_weak: bool = False

    def row(self) -> Row:
        kind = RowKind.DELETE if self.value is None else RowKind.UPDATE_AFTER
        unsent = [] if self.is_sent else [2]
        large = self.large if self.is_sent else None
        return self.id, self.value, large, self.ms, self.offset, self.is_weak, int(kind), unsent


class Stored:
    """A table that takes what it is told to write, and refuses what does not fit its rows."""

    def __init__(self) -> None:
        self.rows: dict[Row, Row] = {}

    def take(self, changes: Sequence[Change], *, with_update_before: bool = False) -> dict[tuple[str, Became], int]:
        ids = {change.id for change in changes}
        held = [row for row in self.rows.values() if row[0] in ids]
        arrived = table([change.row() for change in changes], ARRIVED)
        found = versions_after(table(held, STORED), arrived, ["id"], NAMES, with_update_before=with_update_before)
        before: Row | None = None
        for *values, kind in zip(*(_plain(column) for column in found.rows.columns), strict=True):
            row = tuple(values)
            place = (row[0], row[3], row[6])
            match RowKind(kind):
                case RowKind.INSERT:
                    assert place not in self.rows
                    self.rows[place] = row
                case RowKind.UPDATE_BEFORE:
                    assert self.rows[place] == row
                case RowKind.UPDATE_AFTER:
                    assert self.rows[place] != row and (before == place or not with_update_before)
                    self.rows[place] = row
                case RowKind.DELETE:
                    assert self.rows.pop(place) == row
            before = place if kind == RowKind.UPDATE_BEFORE else None
        return dict(found.unsent)


def table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(column, f.type) for column, f in zip(columns, schema, strict=True)], schema=schema)


def _plain(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return values


def folded(changes: Sequence[Change]) -> list[Row]:
    """The rows that a fold in the order of the source gives."""
    rows: list[list[Any]] = []
    for key in sorted({change.id for change in changes}):
        version: list[Any] | None = None
        for c in sorted({c for c in changes if c.id == key}, key=lambda c: (c.ms, c.offset)):
            if version is not None:
                version[4:6], version[7] = [c.ms, False], c.offset
            elif c.value is None:
                rows.append([key, None, None, c.ms, c.ms, False, c.offset, c.offset])
            large = c.large if c.is_sent else None if version is None else version[2]
            version = None if c.value is None else [key, c.value, large, c.ms, None, True, c.offset, None]
            rows += [] if version is None else [version]
    return in_place(map(tuple, rows))


def in_place(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row[0], row[3], row[6]))


CHANGES = st.builds(
    Change, st.integers(1, 2), st.integers(1, 5), st.integers(0, 5), st.none() | st.sampled_from(["a", "b"])
)


def batches_of(draw: st.DrawFn, whole: list[Change]) -> list[list[Change]]:
    batches = []
    while whole:
        size = draw(st.integers(1, 5))
        batches.append(whole[:size])
        whole = whole[size:]
    return batches


@st.composite
def in_any_order(draw: st.DrawFn) -> list[list[Change]]:
    """Some come again, later or in the same batch; no two are at the same place."""
    changes = draw(st.lists(CHANGES, min_size=1, max_size=12, unique_by=lambda c: (c.id, c.ms, c.offset)))
    again = draw(st.lists(st.sampled_from(changes), max_size=6))
    return batches_of(draw, draw(st.permutations([*changes, *again])))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(in_any_order(), st.booleans())
def test_versions_follow_from_the_changes_whatever_order_they_arrive_in(
    batches: list[list[Change]], with_update_before: bool
) -> None:
    stored = Stored()
    for batch in batches:
        stored.take(batch, with_update_before=with_update_before)
    assert sorted(stored.rows.values(), key=lambda row: (row[0], row[3], row[6])) == folded(
        [change for batch in batches for change in batch]
    )
    rows = dict(stored.rows)
    for batch in batches:
        stored.take(batch)
    assert stored.rows == rows


@st.composite
def in_order(draw: st.DrawFn) -> list[list[Change]]:
    """As PostgreSQL sends them: an update may leave a large value out."""
    changes: list[Change] = []
    held: dict[int, str] = {}
    for offset in range(draw(st.integers(1, 12))):
        key = draw(st.integers(1, 2))
        value = draw(st.sampled_from(["a", "b"]) | (st.none() if key in held else st.nothing()))
        is_sent = key not in held or draw(st.booleans())
        large = draw(st.sampled_from(["x", "y"])) if is_sent else held[key]
        changes.append(Change(key, offset // 2, offset, value, large, is_sent or value is None))
        if value is None:
            del held[key]
        else:
            held[key] = large
    return batches_of(draw, changes)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(in_order())
def test_values_that_were_not_sent_are_those_of_the_version_before(batches: list[list[Change]]) -> None:
    stored = Stored()
    for batch in batches:
        assert not stored.take(batch)
    assert sorted(stored.rows.values(), key=lambda row: (row[0], row[3], row[6])) == folded(
        [change for batch in batches for change in batch]
    )


def test_a_value_that_no_version_tells_is_null_and_counted() -> None:
    stored = Stored()
    unsent = stored.take([Change(1, 5, 0, "a", is_sent=False), Change(1, 6, 1, "b", is_sent=False)])
    assert unsent == {("large", Became.NULL): 1}
    assert [row[2] for row in stored.rows.values()] == [None, None]


def test_a_late_value_that_was_not_sent_is_that_of_the_version_it_follows() -> None:
    stored = Stored()
    stored.take([Change(1, 1, 0, "a", "old"), Change(1, 9, 2, "b", "new")])
    stored.take([Change(1, 5, 1, "late", is_sent=False)])
    assert {row[3]: row[2] for row in stored.rows.values()} == {1: "old", 5: "old", 9: "new"}


def test_a_snapshot_that_reads_a_row_again_adds_a_version_only_for_what_it_shows() -> None:
    stored = Stored()
    read = [Change(1, 5, 1, "a", is_weak=True), Change(1, 6, 2, "a", is_weak=True), Change(2, 6, 3, "n", is_weak=True)]
    stored.take([Change(1, 1, 0, "a")])
    for _ in range(2):
        stored.take(read)
        assert [row[:2] + row[3:5] for row in stored.rows.values()] == [(1, "a", 1, None), (2, "n", 6, None)]
    stored.take([Change(1, 9, 4, "b", is_weak=True)])
    assert {row[3]: row[4] for row in stored.rows.values() if row[0] == 1} == {1: 9, 9: None}


def test_a_version_that_is_read_again_stays_where_a_late_change_now_equals_it() -> None:
    stored = Stored()
    read = Change(1, 5, 1, "a", is_weak=True)
    stored.take([Change(1, 1, 0, "b"), read])
    stored.take([Change(1, 3, 2, "a")])
    rows = dict(stored.rows)
    stored.take([read])
    assert stored.rows == rows and len(rows) == 3


def test_a_delete_that_a_filter_made_ends_a_version_and_leaves_no_mark() -> None:
    stored = Stored()
    gone = [Change(1, 1, 0, None, is_weak=True), Change(1, 2, 1, None, is_weak=True)]
    stored.take(gone)
    assert not stored.rows
    stored.take([Change(1, 3, 2, "a"), Change(1, 4, 3, None, is_weak=True), Change(1, 5, 4, None, is_weak=True)])
    assert list(stored.rows.values()) == [(1, "a", "x", 3, 4, False, 2, 3)]


def test_the_newest_version_of_a_key_is_found_whether_it_holds_or_not() -> None:
    stored = Stored()
    stored.take([Change(1, 1, 0, "a"), Change(1, 2, 1, "b"), Change(1, 3, 2, None), Change(1, 4, 3, None)])
    stored.take([Change(2, 1, 4, None), Change(3, 1, 5, "c")])
    rows = in_place(stored.rows.values())
    found = newest_versions(table(rows, STORED), ["id"], NAMES)
    assert found.select(["id", "value"]).to_pylist() == [{"id": 1, "value": "b"}, {"id": 3, "value": "c"}]
