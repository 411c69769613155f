"""What becomes of each kind of event under a filter and a computed key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from paimon_table.row_kind import RowKind
from sources.expressions.row_fates import fates_of
from sources.expressions.rule_words import Leaving

KINDS = {kind.short: int(kind) for kind in RowKind}


def fates(
    rows: str,
    moved: bool | None = None,
    leaving: Leaving = Leaving.DELETED,
    wants: bool = False,
    is_ordered: bool = False,
) -> str:
    """``rows`` are kinds with ``!`` behind those that the filter does not take; a comma ends a record.

    ``~`` stands behind old rows that have no values.

    Operations stand in brackets. The answer has what is kept, and ``?`` for a row of which that is not known.
    """
    kinds, matches, lacking, offsets, ops = [], [], [], [], []
    for offset, record in enumerate(rows.split(",")):
        for word in record.split():
            kinds.append(KINDS[word[:2]])
            matches.append("!" not in word)
            lacking.append("~" in word)
            offsets.append(offset)
            ops.append(word.partition("(")[2].rstrip(")") or None)
    found = fates_of(
        np.array(offsets), np.array(kinds, np.int8), np.array(matches), np.array(lacking),
        None if moved is None else np.full(len(kinds), moved),
        pa.chunked_array([pa.array(ops, pa.string())]), leaving, wants_update_before=wants, is_ordered=is_ordered,
    )  # fmt: skip
    words = [
        "?" if refused else RowKind(kind).short
        for kind, kept, refused in zip(found.kinds.tolist(), found.kept.tolist(), found.refused.tolist(), strict=True)
        if kept
    ]
    return " ".join(words)


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        ("+I, +U, -D", "+I +U -D"), ("-U +U", "+U"), ("-U +U!", "-D"), ("-U! +U", "+I"), ("-U! +U!", ""),
        ("-D +I", "-D +I"), ("-D +I!", "-D"), ("-D! +I", "+I"), ("-D!", ""), ("+U!", "-D"), ("+I!", "-D"),
        ("+I!(c), +I!(r), +I!(INSERT)", "-D"), ("-D, +I", "-D +I"), ("-U +U, -U! +U", "+U +I"),
    ],
)  # fmt: skip
def test_rows_of_a_table_that_replaces_by_key(rows: str, kept: str) -> None:
    assert fates(rows) == kept


@pytest.mark.parametrize(
    ("rows", "moved", "kept"),
    [
        ("-U +U", True, "-D +I"), ("-U +U", False, "-U +U"), ("-D +I", False, "-U +U"), ("-D +I", True, "-D +I"),
        ("-U +U!", True, "-D"), ("-U! +U", True, "+I"), ("+U, -D", True, "+U -D"),
    ],
)  # fmt: skip
def test_an_update_under_another_key_moves_the_row(rows: str, moved: bool, kept: str) -> None:
    assert fates(rows, moved, wants=True) == kept


@pytest.mark.parametrize(
    ("rows", "moved", "kept"),
    [
        ("-D +U!", None, "-D -D"), ("-U +U!", None, "-D"), ("-U +U!", True, "-D -D"), ("-U +U!", False, "-D"),
        ("-D! +I!", None, ""), ("-D +I", None, "-D +I"),
    ],
)  # fmt: skip
def test_where_rows_have_an_order_one_that_leaves_under_another_key_is_a_delete_of_both(
    rows: str, moved: bool | None, kept: str
) -> None:
    assert fates(rows, moved, is_ordered=True) == kept


def test_what_nobody_knows_is_refused_and_what_is_not_wanted_left_out() -> None:
    assert fates("+U!, +I!, -D!, +U", leaving=Leaving.REFUSED) == "? +U"
    assert fates("+U!, +I!, +I", leaving=Leaving.OMITTED) == "+I"


@pytest.mark.parametrize(
    ("rows", "kept"),
    [("-U~ +U", "+U"), ("-U~ +U!", "?"), ("-D~", "?"), ("-D~ +I", "? +I"), ("-D~ +I!", "?"), ("-U! +U, -D", "+I -D")],
)
def test_an_old_row_without_values_is_as_none(rows: str, kept: str) -> None:
    assert fates(rows, leaving=Leaving.REFUSED) == kept
