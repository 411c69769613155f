"""Values that the source left out: which row they come from, and what is known to nobody."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_table.row_kind import VALUE_KIND, RowKind
from paimon_table.types import arrow_type, parse_type
from sinks.exchange.target import OTHER_KEY, UNAVAILABLE
from sinks.write.gap_filling import ColumnOrder, Filled, GapFiller, Histories, Key
from sinks.write.unsent import Became, null_count, unsent_texts

KINDS = {kind.short: int(kind) for kind in RowKind}
HIDDEN = object()
"""Stands for a value that the source did not send."""


@dataclass(frozen=True)
class Change:
    """One row of a batch: kind, key and the other columns; ``other`` is the other key of a change of the key."""

    kind: str
    key: int
    values: tuple[Any, ...]
    other: int | None = None


@dataclass
class Bucket:
    """A bucket with the key ``id`` and further columns; ``stored`` and ``former`` are rows of its table by key."""

    types: Sequence[str] = ("STRING",)
    stored: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    former: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    looked_up: list[list[int]] = field(default_factory=list)
    accumulating: Sequence[str] = ()
    sequence: Sequence[str] = ()
    descending: bool = False
    group: Sequence[str] = ()
    """The sequence of the group of the first column behind the key."""
    former_columns: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def filled(self, *changes: Change) -> Filled:
        rows = self._rows(changes)
        histories = self.histories(rows)
        return self._filler(lambda key: histories).fill(histories, rows)

    def values(self, *changes: Change) -> list[Any]:
        """The first column behind the key."""
        column: list[Any] = self.filled(*changes).rows.column("a").to_pylist()
        return column

    def histories(self, rows: pa.Table) -> Histories:
        def current(keys: pa.Table) -> pa.Table:
            self.looked_up.append(keys.column("id").to_pylist())
            return self._found(keys, self.stored)

        def former(keys: pa.Table) -> pa.Table:
            return self._found(keys, self.former)

        return Histories(rows, ["id"], current, former, former_columns=self.former_columns)

    def _filler(self, histories_of: Any) -> GapFiller:
        groups = {"a": ColumnOrder(tuple(self.group))} if self.group else {}
        return GapFiller(histories_of, self.accumulating, ColumnOrder(tuple(self.sequence), self.descending), groups)

    def _found(self, keys: pa.Table, rows: dict[int, tuple[Any, ...]]) -> pa.Table:
        found = [(key, *rows[key]) for key in keys.column("id").to_pylist() if key in rows]
        return self._table(found)

    def _table(self, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        types = [pa.int32(), *(arrow_type(parse_type(text)) for text in self.types)]
        names = ["id", *"abcdef"[: len(self.types)]]
        columns = [pa.array([row[i] for row in rows], t) for i, t in enumerate(types)]
        return pa.table(columns, names=names)

    def _rows(self, changes: Sequence[Change]) -> pa.Table:
        sent = [(c.key, *(None if value is HIDDEN else value for value in c.values)) for c in changes]
        hidden = [[i for i, value in enumerate(c.values, 1) if value is HIDDEN] or None for c in changes]
        others = [None if c.other is None else json.dumps([c.other]) for c in changes]
        rows = self._table(sent).append_column(VALUE_KIND, pa.array([KINDS[c.kind] for c in changes], pa.int8()))
        rows = rows.append_column(UNAVAILABLE, pa.array(hidden, pa.list_(pa.int32())))
        return rows.append_column(OTHER_KEY, pa.array(others, pa.string()))


def put(key: int, *values: Any, other: int | None = None) -> Change:
    return Change("+U", key, values, other)


def delete(key: int, *values: Any, other: int | None = None) -> Change:
    return Change("-D", key, values or (None,), other)


# ---------------------------------------------------------------- rows that keep their key


def test_a_value_comes_from_the_change_before_else_from_the_table() -> None:
    bucket = Bucket(stored={1: ("old",), 2: ("kept",)})

    assert bucket.values(put(1, "new"), put(1, HIDDEN), put(2, HIDDEN), put(2, HIDDEN)) == [
        "new",
        "new",
        "kept",
        "kept",
    ]


def test_rows_are_looked_up_once_and_together() -> None:
    bucket = Bucket(stored=dict.fromkeys(range(9), ("x",)))

    bucket.filled(*(put(key, HIDDEN) for key in (3, 1, 3, 2)), put(5, "sent"))

    assert bucket.looked_up == [[3, 1, 2]]


def test_without_gaps_nothing_is_looked_up_and_the_extra_columns_go() -> None:
    bucket = Bucket()

    filled = bucket.filled(put(1, "a"), delete(2, "b"))

    assert (filled.rows.column_names, null_count(filled.unsent)) == (["id", "a", VALUE_KIND], 0)
    assert bucket.looked_up == []


def test_a_value_that_nobody_knows_is_null_and_counted_but_not_of_a_delete() -> None:
    filled = Bucket().filled(put(1, HIDDEN), delete(2, HIDDEN))

    assert filled.rows.column("a").to_pylist() == [None, None]
    assert null_count(filled.unsent) == 1


def test_a_row_that_comes_after_its_delete_takes_nothing_from_the_table() -> None:
    filled = Bucket(stored={1: ("old",)}).filled(delete(1, "old"), put(1, HIDDEN))

    assert (filled.rows.column("a").to_pylist(), null_count(filled.unsent)) == (["old", None], 1)


def test_null_is_a_value() -> None:
    filled = Bucket(stored={1: (None,), 2: ("x",)}).filled(put(1, HIDDEN), put(2, None), put(2, HIDDEN))

    assert (filled.rows.column("a").to_pylist(), null_count(filled.unsent)) == ([None] * 3, 0)


# ---------------------------------------------------------------- rows that move to another key


def test_a_moved_row_takes_its_values_from_the_key_that_it_left() -> None:
    bucket = Bucket(stored={1: ("mine",), 2: ("other",)})

    assert bucket.values(delete(1, HIDDEN, other=2), put(2, HIDDEN, other=1)) == ["mine", "mine"]


def test_what_the_old_key_becomes_later_does_not_count() -> None:
    bucket = Bucket(stored={1: ("first",)})
    moves = [put(1, "second"), delete(1, HIDDEN, other=2), put(2, HIDDEN, other=1), put(1, "third"), put(1, HIDDEN)]

    assert bucket.values(*moves) == ["second", "second", "second", "third", "third"]


def test_the_nth_arrival_belongs_to_the_nth_departure() -> None:
    bucket = Bucket(stored={1: ("first",)})
    there = [delete(1, HIDDEN, other=2), put(2, HIDDEN, other=1)]
    back = [delete(2, HIDDEN), put(1, "second")]

    assert bucket.values(*there, *back, *there) == ["first", "first", "first", "second", "second", "second"]


def test_a_row_that_a_tombstone_deletes_once_more_leaves_once() -> None:
    """Flattened records: the old row that is marked as deleted, then the null value of its key."""
    bucket = Bucket(stored={1: ("one",)})
    twice = (delete(1, None, other=2), delete(1, None, other=2))
    assert bucket.values(*twice, put(2, HIDDEN, other=1))[-1] == "one"
    again = (*twice, put(2, HIDDEN, other=1), delete(2, None, other=1), put(1, "back", other=2), *twice)
    assert bucket.values(*again, put(2, HIDDEN, other=1))[-1] == "back"


def test_a_tombstone_alone_says_nothing_of_the_row_that_a_batch_before_has_deleted() -> None:
    assert Bucket(former={1: ("one",)}).values(delete(1, None, other=2), put(2, HIDDEN, other=1))[-1] == "one"


def test_two_rows_exchange_their_keys() -> None:
    bucket = Bucket(stored={1: ("one",), 2: ("two",)})
    changes = [delete(1, HIDDEN, other=2), delete(2, HIDDEN, other=1), put(2, HIDDEN, other=1), put(1, HIDDEN, other=2)]

    assert bucket.values(*changes) == ["one", "two", "one", "two"]


def test_rows_of_one_sequence_that_follow_each_other_under_a_key_keep_their_own_values() -> None:
    """As rows of one transaction do, whose time of change an update of the key alone leaves as it is."""
    bucket = Bucket(("STRING", "INT"), {1: ("one", 7), 2: ("two", 7), 3: ("three", 7)}, sequence=["b"])
    leaving = [delete(2, None, HIDDEN), delete(1, None, HIDDEN, other=2), put(2, HIDDEN, 7, other=1)]
    following = [delete(2, None, HIDDEN), delete(3, None, HIDDEN, other=2), put(2, HIDDEN, 7, other=3)]

    assert bucket.values(*leaving, *following) == [None, None, "one", None, None, "three"]


def test_rows_whose_sequence_was_not_sent_are_not_taken_for_one_another() -> None:
    bucket = Bucket(("STRING", "INT"), {1: ("one", 7), 3: ("three", 8)}, sequence=["b"])
    moves = [delete(1, None, 7, other=2), put(2, HIDDEN, HIDDEN, other=1), delete(2, None, 7)]

    filled = bucket.filled(*moves, delete(3, None, 8, other=2), put(2, HIDDEN, HIDDEN, other=3))

    assert [(row["a"], row["b"]) for row in filled.rows.to_pylist()][1::3] == [("one", 7), ("three", 8)]


def test_a_departure_of_a_later_batch_gives_the_old_keys_row_as_it_is() -> None:
    bucket = Bucket(stored={1: ("stored",)})

    early = bucket.filled(put(2, HIDDEN, other=1))
    assert early.rows.column("a").to_pylist() == ["stored"]
    assert early.unsent == {("a", Became.OLDER): 1}, "a later change of the old key may be in another partition"
    assert bucket.values(put(1, "newer"), put(2, HIDDEN, other=1)) == ["newer", "newer"]


def test_a_departure_of_an_earlier_batch_gives_the_row_that_the_table_had() -> None:
    filled = Bucket(former={1: ("gone",)}).filled(put(2, HIDDEN, other=1))
    assert (filled.rows.column("a").to_pylist(), filled.unsent) == (["gone"], {})


@pytest.mark.parametrize("kept", ["stored", "former"])
def test_a_moved_row_with_its_value_in_a_column_of_the_former_type_is_null_and_counted(kept: str) -> None:
    rows: dict[str, Any] = {kept: {1: (None, "7")}}
    filled = Bucket(["INT", "STRING"], former_columns={"a": ["b"]}, **rows).filled(put(2, HIDDEN, None, other=1))
    assert (filled.rows.column("a").to_pylist(), filled.unsent) == ([None], {("a", Became.NULL_KEY_CHANGED): 1})


def test_values_that_nobody_knows_are_told_by_column_and_by_what_hides_them() -> None:
    changes = [put(1, HIDDEN, "x"), put(2, HIDDEN, HIDDEN, other=3), delete(4, HIDDEN, HIDDEN)]
    filled = Bucket(["STRING", "STRING"]).filled(*changes)
    assert filled.unsent == {
        ("a", Became.NULL): 1,
        ("a", Became.NULL_KEY_CHANGED): 1,
        ("b", Became.NULL_KEY_CHANGED): 1,
    }
    plain, moved = unsent_texts(filled.unsent)
    assert "NULL was written for 1 value(s)" in plain and "'a': 1" in plain and "partition" not in plain
    assert "quarantine" in plain and "TOAST" not in plain
    assert "'a': 1, 'b': 1" in moved and "REPLICA IDENTITY FULL" in moved and "one partition" in moved


def test_rows_that_name_one_another_as_origin_are_unknown() -> None:
    filled = Bucket(stored={}).filled(put(1, HIDDEN, other=2), put(2, HIDDEN, other=1))

    assert filled.rows.column("a").to_pylist() == [None, None]
    assert null_count(filled.unsent) == 2


def test_a_key_that_the_table_cannot_hold_has_no_row() -> None:
    bucket = Bucket()
    rows = bucket._rows([put(2, HIDDEN, other=1)])

    def no_bucket(key: Key) -> Histories:
        raise pa.ArrowInvalid("no such key")

    filled = GapFiller(no_bucket).fill(bucket.histories(rows), rows)

    assert (filled.rows.column("a").to_pylist(), null_count(filled.unsent)) == ([None], 1)


def test_an_origin_may_lie_in_another_bucket() -> None:
    here, there = Bucket(), Bucket(stored={1: ("far",)})
    rows = here._rows([put(2, HIDDEN, other=1)])
    others = there.histories(there._rows([delete(1, HIDDEN, other=2)]))

    filled = GapFiller(lambda key: others).fill(here.histories(rows), rows)

    assert filled.rows.column("a").to_pylist() == ["far"]


@pytest.mark.slow
def test_a_row_may_change_thousands_of_times_in_a_batch() -> None:
    """Each change leaves the large value out, also before the row moves to another key."""
    bucket = Bucket(types=["STRING", "INT"], stored={1: ("large", 0)})
    updates = [put(1, HIDDEN, number) for number in range(5000)]
    assert {*bucket.values(*updates)} == {"large"}
    moved = bucket.values(put(2, HIDDEN, 1, other=1), *updates, delete(1, HIDDEN, 0, other=2))
    assert {*moved} == {"large"}


# ---------------------------------------------------------------- columns with a meaning of their own


def test_an_accumulating_column_adds_nothing_unless_its_row_moves() -> None:
    bucket = Bucket(types=["INT"], stored={1: (5,), 3: (7,)}, accumulating=["a"])

    filled = bucket.filled(put(1, HIDDEN), delete(3, 7, other=4), put(4, HIDDEN, other=3))

    assert (filled.rows.column("a").to_pylist(), null_count(filled.unsent)) == ([None, 7, 7], 0)


@pytest.mark.parametrize(("descending", "newest"), [(False, ("late", 9)), (True, ("early", 2))])
def test_a_delete_has_the_values_of_the_newest_row_which_need_not_be_the_last(
    descending: bool, newest: tuple[str, int]
) -> None:
    bucket = Bucket(["STRING", "INT"], {1: ("stored", 5)}, sequence=["b"], descending=descending)
    changes = [put(1, "late", 9), put(1, "early", 2), delete(1, HIDDEN, HIDDEN)]

    deleted = bucket.filled(*changes).rows.to_pylist()[-1]

    assert (deleted["a"], deleted["b"]) == newest


def test_a_value_comes_from_the_newest_row_which_need_not_be_the_last() -> None:
    bucket = Bucket(["STRING", "INT"], {1: ("stored", 5)}, sequence=["b"])

    assert bucket.values(put(1, "late", 3), put(1, HIDDEN, 6))[-1] == "stored"
    assert bucket.values(put(1, "new", 6), put(1, "late", 3), put(1, HIDDEN, 7), put(1, HIDDEN, 8))[-2:] == ["new"] * 2


def test_a_value_never_comes_from_a_row_that_is_older_than_the_delete() -> None:
    bucket = Bucket(["STRING", "INT"], {1: ("stored", 5)}, sequence=["b"])

    assert bucket.values(delete(1, None, HIDDEN), put(1, "late", 3), put(1, HIDDEN, 6))[-1] is None


def test_a_row_without_the_sequence_of_a_group_leaves_its_columns_as_they_are() -> None:
    """As the row of another topic that feeds other columns."""
    bucket = Bucket(["STRING", "INT"], {1: ("mine", 3)}, group=["b"])

    assert bucket.values(put(1, None, None), put(1, HIDDEN, 4))[-1] == "mine"
    assert bucket.values(put(1, None, 4), put(1, HIDDEN, 5))[-1] is None


def test_the_sequence_of_a_delete_counts_from_the_delete_before() -> None:
    bucket = Bucket(["INT"], {1: (9,)}, sequence=["a"])

    assert bucket.values(delete(1, HIDDEN), put(1, 3), delete(1, HIDDEN), delete(1, HIDDEN)) == [9, 3, 9, 9]
    assert bucket.values(delete(1, 5), put(1, 3), delete(1, HIDDEN), delete(1, HIDDEN)) == [5, 3, 9, 9]
    assert bucket.values(delete(1, HIDDEN)) == [9]
    assert Bucket(["INT"], {1: (None,)}, sequence=["a"]).values(put(1, 0), delete(1, HIDDEN)) == [0, 0]


FAR_DAY, FAR_MICROS = 2_932_897, 400_000_000_000_000_000
"""Beyond the year 9999, the last one of Python's own dates."""


@pytest.mark.parametrize(
    ("type_text", "value"),
    [
        ("DATE", FAR_DAY),
        ("TIMESTAMP(6)", -FAR_MICROS),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", FAR_MICROS),
        ("ROW<d DATE, n INT>", {"d": FAR_DAY, "n": 1}),
        ("ARRAY<TIMESTAMP(3)>", [FAR_MICROS // 1000, None]),
        ("MAP<INT, ROW<d DATE, t TIME(3)>>", [(1, {"d": FAR_DAY, "t": 5}), (2, None)]),
        ("ARRAY<ARRAY<TIMESTAMP(9)>>", [[1_700_000_000_123_456_789], [], None]),
    ],
)
def test_moments_beyond_pythons_years_are_filled_whole(type_text: str, value: object) -> None:
    bucket = Bucket([type_text, "STRING"], {1: (value, "old"), 2: (None, "old")})

    filled = bucket.filled(put(1, HIDDEN, "x"), put(2, HIDDEN, "y"), put(3, value, HIDDEN), put(4, value, "z"))

    expected = pa.array([value, None, value, value], arrow_type(parse_type(type_text)))
    assert filled.rows.column("a").combine_chunks().equals(expected)
    assert null_count(filled.unsent) == 1


# ---------------------------------------------------------------- random histories


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[int, tuple[str]], list[Change], list[str]]:
    """The table before a batch, the batch with the values that it hides, and the values that it would have sent."""
    stored = {key: (f"s{key}",) for key in draw(st.sets(st.integers(0, 4)))}
    live = {key: value for key, (value,) in stored.items()}
    changes: list[Change] = []
    sent: list[str] = []

    def add(kind: str, key: int, value: str, is_hidden: bool, other: int | None = None) -> None:
        changes.append(Change(kind, key, (HIDDEN if is_hidden else value,), other))
        sent.append(value)

    for number in range(draw(st.integers(1, 12))):
        key = draw(st.integers(0, 4))
        if key not in live or draw(st.booleans()):
            is_same = key in live and draw(st.booleans())
            live[key] = live[key] if is_same else f"v{number}"
            add("+U", key, live[key], is_same)
            continue
        target = draw(st.integers(0, 4))
        is_move = target != key and target not in live
        value = live.pop(key)
        add("-D", key, value, draw(st.booleans()), target if is_move else None)
        if is_move:
            live[target] = value
            add("+U", target, value, True, key)
    return stored, changes, sent


@pytest.mark.slow
@given(histories())
def test_hidden_values_are_those_that_the_source_had(history: tuple[Any, list[Change], list[str]]) -> None:
    stored, changes, sent = history

    filled = Bucket(stored=stored).filled(*changes)

    assert filled.rows.column("a").to_pylist() == sent
    assert null_count(filled.unsent) == 0
