"""Partial-update over random histories: the vector path equals the fold, and flushes may be cut anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from paimon_table.errors import MalformedRecord
from tests.support.partial_update_rows import EngineTable, Row, plain

_COLUMNS = "a g b:STRING h:STRING h2 c u v:STRING"
_GROUPS = {"fields.g.sequence-group": "a,c", "fields.h,h2.sequence-group": "b"}
_DELETES: list[dict[str, str]] = [
    {**_GROUPS},
    {**_GROUPS, "ignore-delete": "true"},
    {**_GROUPS, "partial-update.remove-record-on-sequence-group": "g"},
    {**_GROUPS, "partial-update.remove-record-on-sequence-group": "g,h2"},
    {"partial-update.remove-record-on-delete": "true"},
    {"ignore-delete": "true"},
]
_FUNCTIONS = {
    "a": ["sum", "last_value", "first_value", "last_non_null_value", "first_non_null_value", "product"],
    "b": ["max", "listagg", "last_value", "first_value"],
    "c": ["min", "sum", "last_non_null_value"],
}
_SMALL = st.none() | st.integers(0, 3)
_TEXT = st.none() | st.sampled_from(["", "x", "yy", "a long text 1", "a long text 2"])
_VALUES = st.tuples(_SMALL, _SMALL, _TEXT, _TEXT, _SMALL, _SMALL, _SMALL, _TEXT)


def _rows(kinds: Sequence[str]) -> st.SearchStrategy[list[Row]]:
    row = st.tuples(st.sampled_from(kinds), st.integers(0, 3), _VALUES).map(lambda r: (r[0], r[1], *r[2]))
    return st.lists(row, max_size=25)


@st.composite
def _tables(draw: st.DrawFn) -> EngineTable:
    options = dict(draw(st.sampled_from(_DELETES)))
    if "fields.g.sequence-group" in options:
        for column, functions in _FUNCTIONS.items():
            function = draw(st.none() | st.sampled_from(functions))
            if function is not None:
                options[f"fields.{column}.aggregate-function"] = function
                options[f"fields.{column}.ignore-retract"] = str(draw(st.booleans())).lower()
    return EngineTable.make(_COLUMNS, options)


def _outcome(table: EngineTable, rows: pa.Table, single_passes: bool, fold: bool) -> Any:
    try:
        return table.merge_table(rows, single_passes, fold).to_pylist()
    except MalformedRecord:
        return MalformedRecord


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(_tables(), _rows(["+I", "+U", "+I", "-U", "-D"]), st.booleans())
def test_the_vector_path_equals_the_fold(table: EngineTable, rows: list[Row], single_passes: bool) -> None:
    given_rows = table.rows(rows)
    folded = _outcome(table, given_rows, single_passes, fold=True)
    event("refused" if folded is MalformedRecord else "merged")
    assert _outcome(table, given_rows, single_passes, fold=False) == folded


@st.composite
def _contiguous(draw: st.DrawFn) -> tuple[EngineTable, list[Row]]:
    """Tables and histories where merging the older rows first makes no difference by definition.

    Every key starts with an add, since what the first retract of a merge leaves in columns that nothing overwrites is
    not defined. Functions are associative; where a -D removes the row no -U follows, which would bring it back.
    """
    options = dict(draw(st.sampled_from(_DELETES[:2] + _DELETES[4:])))
    if "fields.g.sequence-group" in options and draw(st.booleans()):
        options["fields.a.aggregate-function"] = "sum"
        options["fields.c.aggregate-function"] = draw(st.sampled_from(["sum", "max"]))
        options["fields.c.ignore-retract"] = "true"
    kinds = ["+I", "+U", "-D"] if "partial-update.remove-record-on-delete" in options else ["+I", "+U", "-U", "-D"]
    return EngineTable.make(_COLUMNS, options), _from_first_add(draw(_rows(kinds)))


def _from_first_add(rows: list[Row]) -> list[Row]:
    met: set[int] = set()
    kept = []
    for row in rows:
        if row[0] in {"+I", "+U"}:
            met.add(row[1])
        if row[1] in met:
            kept.append(row)
    return kept


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(_contiguous(), st.integers(0, 25))
def test_merging_the_older_rows_first_makes_no_difference(case: tuple[EngineTable, list[Row]], cut: int) -> None:
    table, rows = case
    cut = min(cut, len(rows))
    older = table.merge_table(table.rows(rows[:cut]))
    in_two_steps = table.merge_table(pa.concat_tables([older, table.rows(rows[cut:], cut)]))
    assert _adds_alike(plain(in_two_steps)) == _adds_alike(table.merge(rows))


def _adds_alike(rows: list[Row]) -> list[Row]:
    """A merge makes +I of a +U, so whether a row is +I or +U depends on the cuts."""
    return [("+I" if row[0] == "+U" else row[0], *row[1:]) for row in rows]
