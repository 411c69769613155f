"""Schema changes: what is applied, what is refused, and which id a new column gets."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from paimon_table.errors import ConfigError, SchemaChangeRefused
from paimon_table.schema.table_schema import TableSchema, create_schema
from paimon_table.types import parse_type, type_json
from paimon_table.validation.schema_evolution import (
    AddColumn,
    DescribeColumn,
    DropColumn,
    RenameColumn,
    SchemaChange,
    SetOption,
    WidenColumn,
    apply_changes,
    is_lossless_widening,
)


@pytest.fixture
def schema() -> TableSchema:
    columns = [("id", "INT"), ("v", "INT"), ("s", "VARCHAR(10)"), ("n", "INT NOT NULL")]
    return create_schema([(n, parse_type(t)) for n, t in columns], ["id"], [], {"bucket": "2"}, time_ms=1)


def test_added_column_gets_a_new_id_and_its_place(schema: TableSchema) -> None:
    evolved = apply_changes(schema, [AddColumn("r", parse_type("ROW<x INT, y INT>"), after="id")], time_ms=9)
    assert evolved.column_names == ("id", "r", "v", "s", "n")
    assert (evolved.field("r").id, evolved.highest_field_id) == (4, 6)
    assert (evolved.id, evolved.time_ms) == (1, 9)


def test_id_of_a_dropped_column_is_not_given_again(schema: TableSchema) -> None:
    dropped = apply_changes(schema, [DropColumn("n"), DropColumn("n")], time_ms=9)
    assert (dropped.column_names, dropped.highest_field_id) == (("id", "v", "s"), 3)
    assert apply_changes(dropped, [AddColumn("n", parse_type("INT"))], time_ms=9).field("n").id == 4


def test_renamed_and_described_columns_keep_their_id(schema: TableSchema) -> None:
    changes: list[SchemaChange] = [RenameColumn("v", "w"), DescribeColumn("w", "a number"), RenameColumn("v", "w")]
    evolved = apply_changes(schema, changes, time_ms=9)
    assert evolved.field("w") == replace(schema.field("v"), name="w", description="a number")
    assert apply_changes(evolved, changes[:1], time_ms=10) is evolved


def test_several_changes_make_one_version(schema: TableSchema) -> None:
    changes: list[SchemaChange] = [
        AddColumn("a", parse_type("INT")),
        AddColumn("b", parse_type("INT"), after="a"),
        SetOption("x", "1"),
    ]
    evolved = apply_changes(schema, changes, time_ms=9)
    assert (evolved.id, evolved.column_names[-2:], evolved.options["x"]) == (1, ("a", "b"), "1")


def test_widened_column_keeps_id_and_nullability(schema: TableSchema) -> None:
    evolved = apply_changes(schema, [WidenColumn("n", parse_type("BIGINT"))], time_ms=9)
    assert (evolved.field("n").id, str(evolved.field("n").type)) == (3, "BIGINT NOT NULL")


@pytest.mark.parametrize(
    "change",
    [
        AddColumn("v", parse_type("INT")),
        AddColumn("v", parse_type("SMALLINT")),
        WidenColumn("v", parse_type("SMALLINT")),
        WidenColumn("s", parse_type("VARCHAR(10)")),
        SetOption("bucket", "2"),
    ],
)
def test_change_that_is_there_already_changes_nothing(schema: TableSchema, change: SchemaChange) -> None:
    assert apply_changes(schema, [change], time_ms=9) is schema


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (AddColumn("v", parse_type("STRING")), "cannot be added"),
        (AddColumn("z", parse_type("INT NOT NULL")), "make it nullable"),
        (WidenColumn("v", parse_type("STRING")), "values could be lost"),
        (WidenColumn("s", parse_type("INT")), "values could be lost"),
        (WidenColumn("id", parse_type("BIGINT")), "part of the key"),
        (DropColumn("id"), "cannot be dropped: it is part of the key"),
        (RenameColumn("id", "key"), "cannot be renamed: it is part of the key"),
        (RenameColumn("v", "s"), "has a column of that name"),
    ],
)
def test_change_that_could_lose_values_is_refused(schema: TableSchema, change: SchemaChange, words: str) -> None:
    with pytest.raises(SchemaChangeRefused, match=words):
        apply_changes(schema, [change], time_ms=9)


@pytest.mark.parametrize("change", [DropColumn("v"), RenameColumn("v", "w")])
@pytest.mark.parametrize("option", ["sequence.field", "fields.v.aggregate-function"])
def test_a_column_that_an_option_names_stays(schema: TableSchema, change: SchemaChange, option: str) -> None:
    named = replace(schema, options={"bucket": "2", option: "v"})
    with pytest.raises(SchemaChangeRefused, match=f"option '{option}' names it"):
        apply_changes(named, [change], time_ms=9)


@pytest.mark.parametrize(
    ("options", "change", "words"),
    [
        ({}, SetOption("merge-engine", "first-row"), "cannot change once"),
        ({}, SetOption("bucket-key", "id"), "cannot change once"),
        ({}, SetOption("partition.default-name", "none"), "cannot change once"),
        ({"partition.default-name": "none"}, SetOption("partition.default-name", None), "cannot change once"),
        ({}, SetOption("partition.legacy-name", "false"), "cannot change once"),
        ({"bucket": "-1"}, SetOption("bucket", "2"), "when it is -1"),
        ({"bucket": "2"}, SetOption("bucket", "-1"), "change to -1"),
        ({"bucket": "2"}, SetOption("bucket", None), "cannot be reset"),
        ({"ignore-delete": "true"}, SetOption("ignore-delete", "false"), "from true to false"),
        ({"first-row.ignore-delete": "true"}, SetOption("first-row.ignore-delete", None), "from true to false"),
        ({"force-lookup": "true"}, SetOption("force-lookup", "false"), "cannot change once"),
        ({"ignore-update-before": "true"}, SetOption("ignore-update-before", None), "from true to false"),
    ],
)
def test_fixed_options_change_only_before_the_first_snapshot(
    options: dict[str, str], change: SetOption, words: str
) -> None:
    schema = create_schema([("id", parse_type("INT"))], ["id"], [], options)
    with pytest.raises(ConfigError, match=words):
        apply_changes(schema, [change], time_ms=9)
    assert apply_changes(schema, [change], time_ms=9, has_snapshots=False).options.get(change.name) == change.value


WIDER = [
    ("TINYINT", "SMALLINT"), ("INT", "BIGINT"), ("INT NOT NULL", "INT"), ("INT", "DECIMAL(10, 0)"),
    ("BIGINT", "DECIMAL(21, 2)"), ("SMALLINT", "FLOAT"), ("INT", "DOUBLE"), ("FLOAT", "DOUBLE"),
    ("DECIMAL(10, 2)", "DECIMAL(12, 4)"), ("CHAR(3)", "VARCHAR(3)"), ("CHAR(3)", "CHAR(3)"),
    ("VARCHAR(3)", "STRING"), ("BINARY(4)", "BYTES"), ("TIMESTAMP(3)", "TIMESTAMP(6)"), ("TIME(0)", "TIME(3)"),
    ("TIMESTAMP_LTZ(0)", "TIMESTAMP_LTZ(6)"), ("ARRAY<INT>", "ARRAY<BIGINT>"),
    ("MAP<STRING, INT>", "MAP<STRING, BIGINT>"), ("ROW<a INT>", "ROW<a BIGINT>"), ("DATE", "DATE"),
    ("ROW<a INT>", "ROW<a INT, b INT>"), ("ARRAY<ROW<a INT>>", "ARRAY<ROW<a BIGINT, b ROW<c INT>>>"),
]  # fmt: skip
NOT_WIDER = [
    ("SMALLINT", "TINYINT"), ("INT", "INT NOT NULL"), ("INT", "DECIMAL(9, 0)"), ("BIGINT", "DOUBLE"), ("INT", "FLOAT"),
    ("DOUBLE", "FLOAT"), ("DECIMAL(10, 2)", "DECIMAL(11, 4)"), ("DECIMAL(3, 0)", "INT"), ("CHAR(3)", "CHAR(4)"),
    ("VARCHAR(4)", "VARCHAR(3)"), ("STRING", "CHAR(3)"), ("BYTES", "STRING"), ("TIMESTAMP(6)", "TIMESTAMP(3)"),
    ("TIMESTAMP(6)", "TIMESTAMP(9)"), ("TIMESTAMP(6)", "TIMESTAMP_LTZ(6)"), ("DATE", "TIMESTAMP(6)"),
    ("BOOLEAN", "INT"), ("INT", "STRING"), ("ARRAY<BIGINT>", "ARRAY<INT>"), ("MAP<INT, INT>", "MAP<BIGINT, INT>"),
    ("ROW<a INT>", "ROW<b INT>"), ("ROW<a INT>", "ROW<b INT, a INT>"), ("ROW<a INT>", "ROW<a INT, b INT NOT NULL>"),
    ("ROW<a INT, b INT>", "ROW<a INT>"), ("ARRAY<INT>", "INT"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), WIDER)
def test_wider_types_hold_every_value(old: str, new: str) -> None:
    assert is_lossless_widening(parse_type(old), parse_type(new))


@pytest.mark.parametrize(("old", "new"), NOT_WIDER)
def test_other_type_changes_are_not_widening(old: str, new: str) -> None:
    assert not is_lossless_widening(parse_type(old), parse_type(new))


def test_fields_that_rows_get_have_ids_of_their_own() -> None:
    columns = [("k", parse_type("INT")), ("r", parse_type("ARRAY<ROW<a INT>>")), ("s", parse_type("INT"))]
    schema = create_schema(columns, ["k"])
    wider = WidenColumn("r", parse_type("ARRAY<ROW<a BIGINT, b ROW<c INT>, d INT>>"))

    once = apply_changes(schema, [wider], time_ms=9)
    other = apply_changes(once, [WidenColumn("r", parse_type("ARRAY<ROW<a INT, e INT>>"))], time_ms=9)

    assert json.loads(json.dumps(type_json(once.field("r").type)))["element"]["fields"] == [
        {"id": 2, "name": "a", "type": "BIGINT"},
        {"id": 5, "name": "b", "type": {"type": "ROW", "fields": [{"id": 4, "name": "c", "type": "INT"}]}},
        {"id": 6, "name": "d", "type": "INT"},
    ]
    assert (once.highest_field_id, other.highest_field_id, once.field("s").id) == (6, 7, 3)
    assert str(other.field("r").type) == "ARRAY<ROW<a BIGINT, b ROW<c INT>, d INT, e INT>>"
    assert apply_changes(other, [wider], time_ms=10) == other


@pytest.mark.parametrize(
    ("sql", "wider", "named"),
    [("INT", "DECIMAL(12, 2)", "c"), ("MAP<STRING, INT>", "MAP<STRING, DECIMAL(12, 2)>", "c[a]")],
)
def test_column_with_a_bloom_filter_takes_no_type_without_one(sql: str, wider: str, named: str) -> None:
    option = "file-index.bloom-filter.columns"
    columns = [("k", parse_type("INT")), ("c", parse_type(sql))]
    schema = create_schema(columns, ["k"], (), {"bucket": "1", option: named})
    widened = WidenColumn("c", parse_type(wider))

    with pytest.raises(
        SchemaChangeRefused, match=r"column 'c' cannot change to .*bloom-filter.columns' names .* Remove it"
    ):
        apply_changes(schema, [widened], 0)
    assert str(apply_changes(schema, [widened, SetOption(option, None)], 0).field("c").type) == wider
