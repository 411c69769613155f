"""Schema files and the creation rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paimon_table.errors import ConfigError, CorruptFile
from paimon_table.schema.table_schema import create_schema, from_json, to_json
from paimon_table.types import DataType, parse_type


def columns(*pairs: tuple[str, str]) -> list[tuple[str, DataType]]:
    return [(name, parse_type(text)) for name, text in pairs]


def test_schema_file_has_javas_keys_order_and_layout() -> None:
    schema = create_schema(
        columns(
            ("dt", "DATE"),
            ("id", "bigint"),
            ("amount", "DECIMAL(10,2)"),
            ("r", "ROW<x INT, y ARRAY<ROW<z INT, w STRING>>>"),
            ("tags", "MAP<STRING, INT NOT NULL>"),
            ("at", "TIMESTAMP_LTZ(3)"),
        ),
        primary_keys=["dt", "id"],
        partition_keys=["dt"],
        options={"bucket": "2", "sequence.field": "at"},
        comment="Bestellungen – 注文",
        time_ms=1_700_000_000_000,
    )
    assert to_json(schema) == Path(__file__).with_name("schema-0.json").read_text(encoding="utf-8").rstrip("\n")


def test_schema_survives_its_file() -> None:
    schema = create_schema(
        columns(("id", "INT"), ("n", "ARRAY<ROW<a INT, b STRING NOT NULL>>")), ["id"], [], {"bucket": "1"}, "c", 7
    )
    assert from_json(to_json(schema)) == schema


def test_field_ids_of_nested_rows_follow_their_column() -> None:
    schema = create_schema(columns(("r", "ROW<x INT, y ARRAY<ROW<z INT, w INT>>>"), ("k", "INT")), ["k"])
    row = schema.field("r").type
    assert [(f.id, f.name) for f in row.fields] == [(1, "x"), (4, "y")]
    assert (schema.field("k").id, schema.highest_field_id) == (5, 5)


def test_key_columns_become_not_null_and_nothing_else() -> None:
    schema = create_schema(columns(("id", "INT"), ("v", "INT"), ("p", "INT")), ["id"], ["p"])
    assert [f.type.nullable for f in schema.fields] == [False, True, True]


def test_nullable_primary_key_stays_nullable_when_the_option_says_so() -> None:
    schema = create_schema(columns(("id", "INT"), ("v", "INT")), ["id"], options={"primary-key.nullable": "true"})
    assert schema.field("id").type.nullable


def test_keys_given_as_options_move_to_the_keys() -> None:
    schema = create_schema(
        columns(("a", "INT"), ("b", "INT"), ("v", "INT")),
        [],
        [],
        {"primary-key": "a, b", "partition": "a", "bucket": "1"},
    )
    assert (schema.primary_keys, schema.partition_keys, schema.options) == (("a", "b"), ("a",), {"bucket": "1"})


def test_trimmed_keys_keep_the_order_of_the_primary_key() -> None:
    schema = create_schema(columns(("a", "INT"), ("b", "INT"), ("c", "INT")), ["c", "a", "b"], ["a"])
    assert schema.trimmed_primary_keys == ("c", "b")
    assert schema.bucket_keys == ("c", "b")
    assert [f.id for f in schema.key_fields] == [2, 1]


def test_bucket_key_option_is_split_without_trimming() -> None:
    schema = create_schema(columns(("a", "INT"), ("b", "INT")), ["a", "b"], [], {"bucket-key": "a, b"})
    assert schema.bucket_keys == ("a", " b")


@pytest.mark.parametrize("name", ["_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind", "_ROW_ID", "_KEY_x", " "])
def test_reserved_column_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="column"):
        create_schema(columns(("id", "INT"), (name, "INT")), ["id"])


@pytest.mark.parametrize(
    ("primary", "partition", "words"),
    [
        (["zz"], [], "'zz' is not a column"),
        (["id"], ["zz"], "'zz' is not a column"),
        (["id", "id"], [], "appears twice"),
        (["p"], ["p"], "should not be the same as the partition"),
        (["m"], [], "primary key field 'm' is unsupported"),
        (["id"], ["m"], "partition field 'm' is unsupported"),
    ],
)
def test_wrong_keys_are_refused(primary: list[str], partition: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        create_schema(columns(("id", "INT"), ("p", "INT"), ("m", "MAP<INT, INT>")), primary, partition)


def test_repeated_column_is_refused() -> None:
    with pytest.raises(ConfigError, match="'a' appears twice"):
        create_schema(columns(("a", "INT"), ("a", "STRING")), ["a"])


def test_old_schema_versions_get_the_defaults_of_their_time() -> None:
    text = '{"id": 0, "fields": [], "highestFieldId": -1, "partitionKeys": [], "primaryKeys": [], "options": {}}'
    assert from_json(text).options == {"bucket": "1", "file.format": "orc"}


def test_null_comment_of_other_writers_is_no_comment() -> None:
    schema = create_schema(columns(("id", "INT")), ["id"])
    text = to_json(schema).replace('"timeMillis"', '"comment" : null,\n  "timeMillis"')
    assert from_json(text) == schema


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"id": "x"}', '{"id": 0, "fields": 3, "options": {}}'])
def test_damaged_schema_file_is_reported(text: str) -> None:
    with pytest.raises(CorruptFile, match="schema file"):
        from_json(text)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", 10**400),
        ("highestFieldId", "1"),
        ("timeMillis", float("inf")),
        ("primaryKeys", [["id"]]),
        ("primaryKeys", "id"),
        ("primaryKeys", ["id", "id"]),
        ("fields", [{"id": 0, "name": "id", "type": "INT"}, {"id": 0, "name": "v", "type": "INT"}]),
        ("fields", [{"id": 0, "name": "id", "type": "INT"}, {"id": 1, "name": "id", "type": "INT"}]),
        ("fields", [{"id": True, "name": "id", "type": "INT"}]),
        ("fields", [{"id": 0, "name": None, "type": "INT"}]),
        ("fields", [{"id": 0, "name": "id", "type": {"type": ""}}]),
        ("fields", [{"id": 0, "name": "id", "type": "INT", "defaultValue": 5}]),
    ],
)
def test_values_of_other_kinds_and_repeated_columns_are_damage(key: str, value: object) -> None:
    document = json.loads(to_json(create_schema(columns(("id", "INT"), ("v", "INT")), ["id"])))

    with pytest.raises(CorruptFile, match=r"^/t/schema/schema-0 is not readable as a schema"):
        from_json(json.dumps({**document, key: value}), "/t/schema/schema-0")


@pytest.mark.parametrize("text", ["DECIMAL(²)", "DECIMAL(10, ²)", "VARCHAR(١٠)", "TIMESTAMP(３)", "CHAR(1²)"])
def test_numbers_in_types_have_ascii_digits(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a type: expected a number, found"):
        parse_type(text)


@pytest.mark.parametrize("part", ["ARRAY<{}>", "MAP<STRING, {}>", "ROW<a {}>"])
def test_types_nested_beyond_measure_are_refused(part: str) -> None:
    def nested(levels: int) -> str:
        before, after = part.split("{}")
        return before * levels + "INT" + after * levels

    deep = parse_type(nested(100))
    assert parse_type(str(deep)) == deep

    with pytest.raises(ConfigError, match="is nested more than 100 levels deep; use STRING"):
        parse_type(nested(3000))
