"""Rows whose values stand in cells, as YugabyteDB, Cassandra and Scylla write them."""

from __future__ import annotations

from typing import Any

import pytest

from sources.values.cells import with_plain_fields, with_plain_values

UNSENT = "not sent"


def event(op: str, connector: str | None = None, **images: Any) -> dict[str, Any]:
    return {"op": op, "source": {"connector": connector}, **images}


def cell(value: Any, **more: Any) -> dict[str, Any]:
    return {"value": value, "set": True, **more}


def plain(op: str, after: Any, connector: str | None = None) -> Any:
    return with_plain_values(event(op, connector, after=after), UNSENT)["after"]


def test_null_in_place_of_a_cell_is_a_value_not_sent_and_a_cell_with_null_is_null() -> None:
    row = {"id": cell(1), "name": None, "age": cell(None)}

    assert plain("u", row) == {"id": 1, "name": UNSENT, "age": None}
    assert plain("c", row) == plain("r", row) == {"id": 1, "name": None, "age": None}


@pytest.mark.parametrize("connector", ["cassandra", "scylla"])
def test_an_insert_of_a_database_that_upserts_keeps_the_columns_that_it_does_not_name(connector: str) -> None:
    row = {"id": 1, "name": None, "age": {"value": 2}}
    if connector == "cassandra":
        row = {"id": cell(1, deletion_ts=None), "name": None, "age": cell(2, deletion_ts=3)}

    assert plain("c", row, connector) == {"id": 1, "name": UNSENT, "age": 2}


def test_the_old_row_has_what_was_sent() -> None:
    old = event("d", before={"id": cell(1), "name": None}, after=None)

    assert with_plain_values(old, UNSENT) == {**old, "before": {"id": 1, "name": None}}


ROWS = [
    {"id": 1, "name": cell("a")},
    {"id": {"value": 1}, "name": {"value": "a"}},
    {"id": {"value": 1, "set": True, "unit": "m"}},
    {"id": None},
    {},
    None,
    [cell(1)],
]


@pytest.mark.parametrize("row", ROWS)
def test_documents_that_look_like_cells_stay(row: Any) -> None:
    assert plain("u", row, "postgresql") == row


@pytest.mark.parametrize("value", [None, [], "x", {"source": 3}, {"after": {"id": cell(1)}, "source": None}])
def test_any_value_is_taken(value: Any) -> None:
    taken = with_plain_values(value, UNSENT)
    assert taken == value or taken["after"] == {"id": 1}


def struct(name: str | None, *parts: tuple[str, str], field: str = "c") -> dict[str, Any]:
    fields = [{"field": part, "type": kind, "optional": True} for part, kind in parts]
    return {"type": "struct", "fields": fields, "name": name, "field": field}


MARKED = struct("Cell", ("value", "int64"), ("set", "boolean"))
ALONE = struct("t.Cell", ("value", "int64"))
KEY = {"field": "c", "type": "int32"}
VALUE = {"field": "c", "type": "int64", "optional": True}


@pytest.mark.parametrize(
    ("fields", "plain_fields"),
    [
        ([MARKED, MARKED], [VALUE, VALUE]),
        ([KEY, ALONE], [KEY, VALUE]),
        ([KEY, MARKED], [KEY, MARKED]),
        ([struct("Other", ("value", "int64"))], [struct("Other", ("value", "int64"))]),
        ([], []),
        ([3], [3]),
    ],
)
def test_the_fields_of_a_row_are_those_of_its_values(fields: Any, plain_fields: Any) -> None:
    assert with_plain_fields({"type": "struct", "fields": fields}) == {"type": "struct", "fields": plain_fields}
