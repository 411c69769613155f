"""Columns that a table cannot have, changes that it cannot follow, and the bound on new columns."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.errors import SchemaChangeRefused
from paimon_table.schema.table_schema import create_schema
from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import apply_changes
from pipelines.tables.column_changes import DAY_MS, added_within_a_day, column_changes
from pipelines.tables.tables import PipelineTables
from sources.change_columns import CHANGE_COLUMNS
from tests.support.item_batches import event, filled, records, run
from tests.support.local_batches import pipeline_tables, reported_batches

Rules = list[dict[str, object]]


def rows(tables: PipelineTables) -> dict[int, dict[str, Any]]:
    table = Table.open(f"{tables.config.catalog.warehouse}/lake.db/items")
    return {row["id"]: row for row in table.to_arrow().to_pylist()}


NO_COLUMNS = ["_KEY_x", "_LEVEL", "_SEQUENCE_NUMBER", "rowkind", *sorted(CHANGE_COLUMNS), "", " ", "ID"]


@pytest.mark.parametrize("exact", [False, True])
def test_a_field_that_cannot_be_a_column_sends_its_record_to_quarantine(tmp_path: Path, exact: bool) -> None:
    tables = filled(tmp_path)
    batches = []
    for at in range(100, 100 + 100 * len(NO_COLUMNS), 100):
        name = NO_COLUMNS[at // 100 - 1]
        odd, null = event("c", at, {"id": at, name: "x"}), event("c", at + 1, {"id": at + 1, name: None})
        many = [event("c", key, {"id": key}) for key in range(at + 2, at + (3 if exact else 32))]
        batches.append(records(odd, null, *many, first_offset=at))

    reasons, _ = run(tables, tmp_path, *batches)

    assert len(reasons) == len(NO_COLUMNS)
    for name in NO_COLUMNS:
        assert sum(reason.startswith((f"column {name}: ", f"column {name!r}: ")) for reason in reasons) == 1
    assert {key - key // 100 * 100 for key in rows(tables) if key >= 100} == {*range(1, 3 if exact else 32)}
    assert len(rows(tables)) == 3 + len(NO_COLUMNS) * (2 if exact else 31)


def test_a_new_table_with_almost_the_name_of_another_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tables = pipeline_tables(tmp_path, [{"match": {"table": "(?i)items"}, "into": "lake.{table}"}])
    run(tables, tmp_path, records(*(event("c", 1, {"id": 1}, table=name) for name in ("items", "ITEMS", "items"))))
    told = [record.getMessage() for record in caplog.records if "only in case" in record.getMessage()]
    assert [text.split(". ")[0] for text in told] == [
        "table 'lake.ITEMS' differs from 'lake.items' only in case or in how its characters are composed"
    ]


def test_a_table_is_made_without_the_columns_that_it_cannot_have(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, [{"match": {"table": "items"}, "into": "lake.items"}])

    reasons, _ = run(
        tables, tmp_path, records(event("c", 1, {"id": 1, "rowkind": "x"}), event("c", 2, {"id": 2, "v": 1}))
    )

    assert rows(tables) == {2: {"id": 2, "v": 1}}
    assert len(reasons) == 1


ALIKE = {"ID": 5, "S": "y", "s": "z", "id": 1}


@pytest.mark.parametrize(
    ("declared", "kept"),
    [({}, {"id", "S"}), ({"s": "STRING"}, {"id", "s"}), ({"s": "STRING", "S": "STRING"}, {"id", "S", "s"})],
)
def test_a_new_table_has_no_columns_that_differ_in_case_only(
    tmp_path: Path, declared: dict[str, str], kept: set[str]
) -> None:
    rule: dict[str, object] = {"match": {"table": "items"}, "into": "lake.items", "columns": {"types": declared}}
    tables = pipeline_tables(tmp_path, [rule])

    reasons, _ = run(tables, tmp_path, records(event("c", 1, ALIKE), event("c", 2, {"id": 2, "S": None})))

    assert {*Table.open(f"{tables.config.catalog.warehouse}/lake.db/items").schema.column_names} == kept
    assert len(reasons) == 1 and "only in case" in reasons[0]
    assert rows(tables).keys() == {2}


@pytest.mark.parametrize("name", ["_KEY_x", "rowkind", "_OFFSET", " "])
@pytest.mark.parametrize("stated", [False, True])
def test_a_key_of_a_name_that_no_column_can_have_sends_its_records_to_quarantine(
    tmp_path: Path, name: str, stated: bool
) -> None:
    keyed = {"primary_key": [name]} if stated and name.strip() else {}
    tables = pipeline_tables(
        tmp_path,
        [{"match": {"table": "odd"}, "into": "lake.odd", **keyed}, {"match": {"table": "items"}, "into": "lake.items"}],
    )
    source = {"db": "shop", "schema": "public", "table": "odd"}
    odd = ({name: 1}, {"before": None, "after": {name: 1, "v": 2}, "source": source, "op": "c"})

    reasons, _ = run(tables, tmp_path, records(odd, event("c", 2, {"id": 2})), records(odd, first_offset=2))

    assert rows(tables).keys() == {2}
    assert reasons and all(f"column {name!r} of its key" in reason for reason in reasons)
    assert not any("not in the events" in reason for reason in reasons)


@pytest.mark.parametrize("policy", ["quarantine", "ignore", "pause"])
def test_new_columns_are_bounded_by_the_day(tmp_path: Path, policy: str) -> None:
    bound = {"max_per_day": 2, "beyond": policy}
    rules: Rules = [{"match": {"table": "items"}, "into": "lake.items", "new_columns": bound}]
    tables = filled(tmp_path, rules)
    batches = [records(event("c", key, {"id": key, f"n{key}": key}), first_offset=key) for key in (10, 11, 12, 13)]

    if policy == "pause":
        with pytest.raises(SchemaChangeRefused, match=r"column n12: the table takes 2 new columns within 24 hours"):
            run(tables, tmp_path, *batches)
        return
    reasons, _ = run(tables, tmp_path, *batches)

    assert tables.sinks["lake.items"].table.schema.column_names == ("id", "n10", "n11")
    assert len(reasons) == (2 if policy == "quarantine" else 0)
    assert rows(tables).keys() - {1, 2, 3} == ({10, 11} if policy == "quarantine" else {10, 11, 12, 13})


def test_one_batch_adds_no_more_columns_than_there_is_room_for(tmp_path: Path) -> None:
    rules: Rules = [{"match": {"table": "items"}, "into": "lake.items", "new_columns": {"max_per_day": 1}}]
    tables = filled(tmp_path, rules)

    reasons, _ = run(
        tables, tmp_path, records(*(event("c", k, {"id": k, f"n{k}": k}) for k in (10, 11)), first_offset=3)
    )

    assert len(tables.sinks["lake.items"].table.schema.fields) == 2
    assert len(reasons) == 1


def test_declared_columns_are_added_beyond_the_bound(tmp_path: Path) -> None:
    rules: Rules = [{"match": {"table": "items"}, "into": "lake.items", "schema_changes": {"add": "quarantine"}}]
    rules[0]["columns"] = {"types": {"late": "INT"}}
    tables = pipeline_tables(tmp_path, rules)
    reported_batches(tables, [records(event("c", 1, {"id": 1}))], tmp_path)

    reasons, _ = run(tables, tmp_path, records(event("c", 2, {"id": 2, "late": 3}), first_offset=3))

    assert (reasons, rows(tables)[2]) == ([], {"id": 2, "late": 3})


def test_the_bound_counts_what_the_last_day_added() -> None:
    first = create_schema([("id", parse_type("INT"))], ["id"], (), {"bucket": "1"}, time_ms=5)
    second = column_changes(first, {"a": parse_type("INT"), "b": parse_type("INT")}, {}, 10)
    later = apply_changes(first, second.changes[:1], 5 + DAY_MS)
    latest = apply_changes(later, second.changes[1:], 5 + DAY_MS + 1)

    schemas = [first, later, latest]
    assert [added_within_a_day(schemas, now) for now in (DAY_MS + 6, 2 * DAY_MS + 5, 2 * DAY_MS + 6)] == [2, 1, 0]


def typed(op: str, key: int, kind: str, value: Any) -> tuple[Any, Any]:
    """An event with an embedded schema in which column v has a type."""
    columns = [{"field": "id", "type": "int32"}, {"field": "v", "type": kind}]
    row = {"type": "struct", "field": "after", "fields": columns}
    schema = {"type": "struct", "fields": [row, {"field": "op", "type": "string"}]}
    return {"id": key}, {"schema": schema, "payload": event(op, key, {"id": key, "v": value})[1]}


def test_a_type_that_the_column_cannot_follow_keeps_the_values_that_fit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tables = pipeline_tables(tmp_path, [{"match": {"table": "items"}, "into": "lake.items"}])
    reported_batches(tables, [records(typed("c", 1, "int32", 7))], tmp_path)

    with caplog.at_level(logging.WARNING):
        changed = records(typed("c", 2, "string", "8"), typed("c", 3, "string", "eight"), first_offset=1)
        reasons, _ = run(tables, tmp_path, changed)

    assert {key: row["v"] for key, row in rows(tables).items()} == {1: 7, 2: 8}
    assert reasons == ['column v INT: string "eight" does not fit INT']
    assert sum("does not fit into INT of the table without loss" in m for m in caplog.messages) == 1


def test_a_key_that_its_column_cannot_hold_goes_to_quarantine(tmp_path: Path) -> None:
    tables = filled(tmp_path)

    reasons, _ = run(
        tables, tmp_path, records(event("c", 1 << 70, {"id": 1 << 70}), event("c", 4, {"id": 4}), first_offset=3)
    )

    assert rows(tables).keys() == {1, 2, 3, 4}
    assert len(reasons) == 1


def test_a_changed_type_stops_a_pipeline_that_has_no_quarantine(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, [{"match": {"table": "items"}, "into": "lake.items"}])
    reported_batches(tables, [records(typed("c", 1, "int32", 7))], tmp_path)
    source = tables.config.source.model_copy(update={"on_bad_record": "fail"})
    failing = PipelineTables(tables.config.model_copy(update={"source": source}), tables.commit_user)

    with pytest.raises(SchemaChangeRefused, match="column v: its type is now STRING, which does not fit into INT"):
        run(failing, tmp_path, records(typed("c", 2, "string", "8"), first_offset=1))


@pytest.mark.parametrize("types", [{"v": "BIGINT"}, {}])
def test_one_record_of_another_type_in_the_first_batch_does_not_stop_it(tmp_path: Path, types: dict[str, str]) -> None:
    """With a declared type, or with one that most schemas say, the odd record goes to quarantine."""
    rules: Rules = [{"match": {"table": "items"}, "into": "lake.items", "columns": {"types": types}}]
    tables = pipeline_tables(tmp_path, rules)
    odd, good = typed("c", 1, "string", "x9"), [typed("c", key, "int64", key) for key in (2, 3)]

    reasons, _ = run(tables, tmp_path, records(odd, *good))

    assert {key: row["v"] for key, row in rows(tables).items()} == {2: 2, 3: 3}
    assert len(reasons) == 1


def test_values_without_a_schema_that_disagree_between_partitions_make_a_text_column(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, [{"match": {"table": "items"}, "into": "lake.items"}])
    batch = records(event("c", 1, {"id": 1, "v": 5}), event("c", 2, {"id": 2, "v": "x9"}))
    both = batch.set_column(1, "partition", pa.array([0, 1], pa.int32()))

    reasons, _ = run(tables, tmp_path, both)

    assert (reasons, {key: row["v"] for key, row in rows(tables).items()}) == ([], {1: "5", 2: "x9"})


def test_a_schema_that_cannot_be_read_sends_its_record_to_quarantine(tmp_path: Path) -> None:
    """Its payload alone could be read wrongly: nothing tells in which unit its numbers are."""
    tables = pipeline_tables(tmp_path, [{"match": {"table": "items"}, "into": "lake.items"}])
    decimal = typed("c", 4, "bytes", "AQ==")
    decimal[1]["schema"]["fields"][0]["fields"][1] |= {
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "1000000000"},
    }

    reasons, _ = run(tables, tmp_path, records(typed("c", 1, "int32", 1), typed("c", 2, "int33", 2), decimal))

    assert rows(tables).keys() == {1}
    assert sorted(reason.split(":")[0] for reason in reasons) == [
        "embedded schema has a decimal of scale 1000000000",
        "embedded schema has an unknown type 'int33'",
    ]
