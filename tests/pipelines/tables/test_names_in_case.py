"""Columns of one source whose names differ in case only: in one record, and one after the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paimon_table import Table
from paimon_table.errors import SchemaChangeRefused
from tests.support.item_batches import records, typed
from tests.support.keyed_events import batch_of, created
from tests.support.local_batches import pipeline_tables, reported_batches, run_batches

LOWER = {"id": "int32", "name": "string", "v": "int32"}
UPPER = {"id": "int32", "Name": "string", "v": "int32"}
BOTH = {"id": "int32", "name": "string", "Name": "string"}


def at(types: dict[str, str], **row: Any) -> tuple[Any, Any]:
    return typed(row["id"], row, types)


def run(root: Path, *events: tuple[Any, Any], first: int = 0, **rule: Any) -> Table:
    """Each event in a batch and a process of its own."""
    for offset, event in enumerate(events, first):
        tables = pipeline_tables(root, [{"match": {"table": "items"}, "into": "lake.items", **rule}])
        reported_batches(tables, [records(event, first_offset=offset)], root, offset, tables.config.decoder)
    return Table.open(f"{root}/warehouse/lake.db/items")


def rows(table: Table) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in table.to_arrow().to_pylist()}


def reasons(root: Path) -> list[str]:
    files = sorted((root / "quarantine").rglob("*.jsonl"))
    return [json.loads(line)["reason"] for file in files for line in file.read_text().splitlines()]


OLD, NEW = at(LOWER, id=1, name="a", v=1), at(UPPER, id=2, Name="b", v=2)


@pytest.mark.slow
def test_another_case_is_told_with_what_to_do_and_that_does_it(tmp_path: Path) -> None:
    """Which of both is meant nobody knows without a word: the record waits in the quarantine."""
    table = run(tmp_path, OLD, NEW, at(UPPER, id=3, Name=None, v=3))

    assert rows(table) == {1: {"id": 1, "name": "a", "v": 1}, 3: {"id": 3, "name": None, "v": 3}}
    (reason,) = reasons(tmp_path)
    assert "differs from column 'name' only in case" in reason and "`columns.rename: {Name: name}`" in reason

    table = run(tmp_path, NEW, first=3, columns={"rename": {"Name": "name"}})
    assert rows(table)[2] == {"id": 2, "name": "b", "v": 2} and len(reasons(tmp_path)) == 1


def test_a_rename_to_another_case_is_followed_where_the_rule_asks_for_it(tmp_path: Path) -> None:
    words: dict[str, Any] = {"schema_changes": {"rename": "apply"}}
    field_id = run(tmp_path, OLD, **words).schema.field("name").id

    table = run(tmp_path, NEW, at(LOWER, id=3, name="late", v=3), first=1, **words)

    assert table.schema.column_names == ("id", "Name", "v") and table.schema.field("Name").id == field_id
    assert {key: row["Name"] for key, row in rows(table).items()} == {1: "a", 2: "b", 3: "late"}
    assert reasons(tmp_path) == []


@pytest.mark.parametrize("in_first", [True, False])
def test_declared_twins_keep_apart_in_rows_and_expressions(tmp_path: Path, in_first: bool) -> None:
    columns = {"types": {"name": "STRING", "Name": "STRING"}, "add": {"sum": "name || '+' || \"Name\""}}
    event = at(BOTH, id=1, name="low", Name="UP")

    table = run(tmp_path, *([] if in_first else [at(BOTH, id=9, name="x", Name=None)]), event, columns=columns)

    assert rows(table)[1] == {"id": 1, "name": "low", "Name": "UP", "sum": "low+UP"}
    assert reasons(tmp_path) == []


@pytest.mark.parametrize("rule", [{}, {"primary_key": ["id"]}])
def test_a_key_in_another_case_is_another_key(tmp_path: Path, rule: dict[str, Any]) -> None:
    tables = pipeline_tables(tmp_path, [{"match": {"table": "t"}, "into": "lake.t", **rule}])
    run_batches(tables, [batch_of(0, [created({"id": 1}, n=1)])], tmp_path)

    with pytest.raises(
        SchemaChangeRefused, match=r"offset 1: .*now \(ID\), the primary key of table lake\.t is \(id\)"
    ):
        run_batches(tables, [batch_of(1, [created({"ID": 1}, n=2)])], tmp_path, 1)


def test_nested_fields_in_both_cases_keep_apart(tmp_path: Path) -> None:
    key, value = typed(1, {"id": 1, "r": {"x": 1, "X": 2}}, {"id": "int32"})
    inner = [{"field": name, "type": "int32", "optional": True} for name in ("x", "X")]
    struct = {"field": "r", "type": "struct", "optional": True, "fields": inner}
    value["schema"]["fields"][0]["fields"].append(struct)

    assert rows(run(tmp_path, (key, value))) == {1: {"id": 1, "r": {"x": 1, "X": 2}}}
