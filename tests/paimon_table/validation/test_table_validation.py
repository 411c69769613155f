"""Rules between options, keys and columns; the words are those that users of Paimon know."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.table_state import BucketState
from paimon_table.schema.table_schema import create_schema, to_json
from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.validation.table_validation import validate_new_table, validate_table
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.support.table_driver import TableDriver


def validate(columns: str, primary: str = "", partition: str = "", **options: str) -> None:
    pairs = [tuple(c.split(" ", 1)) for c in columns.split(", ")]
    named = {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}
    schema = create_schema([(n, parse_type(t)) for n, t in pairs], primary.split(), partition.split(), named)
    validate_table(schema)


@pytest.mark.parametrize("sql", ["FLOAT", "DOUBLE"])
def test_partition_columns_whose_names_depend_on_the_version_of_java_are_refused(tmp_path: Path, sql: str) -> None:
    columns = [("k", parse_type("INT")), ("p", parse_type("INT"))]
    schema = create_schema(columns, ["k", "p"], ["p"], {"bucket": "1"})
    fields = tuple(replace(f, type=parse_type(f"{sql} NOT NULL")) if f.name == "p" else f for f in schema.fields)
    with pytest.raises(UnsupportedFeature, match=f"partition column 'p': type {sql} NOT NULL .* DECIMAL or a text"):
        validate_table(replace(schema, fields=fields))

    # a table of another engine can be read
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema" / "schema-0").write_text(to_json(replace(schema, fields=fields)))
    with pytest.raises(UnsupportedFeature, match="partition column 'p'"):
        Table.open(str(tmp_path))
    assert Table.open_for_reading(str(tmp_path)).schema.partition_keys == ("p",)


@pytest.mark.parametrize(
    ("columns", "key", "options", "words"),
    [
        ("k INT, p INT", "k", {"bucket": "2"}, "partition column 'p' is not part of the primary key"),
        ("k INT, p INT", "k", {"bucket": "-2"}, "partition column 'p' is not part of the primary key"),
        (
            "k INT, p INT, d DECIMAL(9,2)", "k p", {"bucket": "2", "file-index.bloom-filter.columns": "d"},
            "'d' has type DECIMAL",
        ),
        ("k INT, p INT, t TIMESTAMP(9)", "k p", {"bucket": "1", "file.format.per.level": "5:avro"}, "column 't'"),
    ],
    ids=str,
)  # fmt: skip
def test_what_no_new_table_may_have_takes_no_rows_in_a_table_of_others_either(
    tmp_path: Path, columns: str, key: str, options: dict[str, str], words: str
) -> None:
    typed = [(name, parse_type(text)) for name, text in (c.split(" ", 1) for c in columns.split(", "))]
    schema = create_schema(typed, key.split(), ["p"], options)
    (tmp_path / "t" / "schema").mkdir(parents=True)
    (tmp_path / "t" / "schema" / "schema-0").write_text(to_json(schema))
    table = Table.open(str(tmp_path / "t"))
    environment = WriterEnvironment(str(tmp_path / "lookup"))

    with pytest.raises(ConfigError, match=f"t cannot be written: .*{words}"):
        TableDriver(table, tmp_path / "lookup").commit([["+I", 1, 1, None][: len(typed) + 1]])
    with pytest.raises(ConfigError, match=words):
        table.bucket_writer(BucketId(EMPTY_ROW, 0), BucketState(), environment)
    assert table.to_arrow().num_rows == 0 and table.snapshots.latest_id() is None


def test_nullable_keys_need_a_key() -> None:
    schema = create_schema([("a", parse_type("INT"))], [], [], {"bucket": "-1", "primary-key.nullable": "true"})
    with pytest.raises(ConfigError, match=r"'primary-key\.nullable' needs a primary key; remove"):
        validate_new_table(schema)
    validate_table(schema)


def test_a_usual_table_passes() -> None:
    validate(
        "id INT, p STRING, at TIMESTAMP(3), op STRING",
        "id p", "p", bucket="2", bucket_key="id", sequence__field="at", rowkind__field="op",
        changelog_producer="lookup", snapshot__num_retained__max="50",
    )  # fmt: skip


_EXPIRING = {"record_level__expire_time": "1 d", "record_level__time_field": "b"}


@pytest.mark.parametrize(
    ("columns", "primary", "partition", "options", "words"),
    [
        ("a INT, b INT", "a", "", {"bucket": "0"}, "number of buckets needs to be greater than 0"),
        ("a INT, b INT", "a", "", {"bucket": "-3"}, "number of buckets needs to be greater than 0"),
        ("a INT, b INT", "a", "", {"bucket": "-1", "bucket_key": "a"}, "'bucket-key' cannot be set with bucket = -1"),
        ("a INT, b INT", "a", "", {"bucket": "1", "bucket_key": "z"}, "should contain all bucket keys"),
        ("a INT, b INT", "a", "", {"bucket": "1", "bucket_key": "b"}, "primary keys ['a'] should contain"),
        ("a INT, p INT", "a p", "p", {"bucket": "1", "bucket_key": "p"}, "should not be one of the partition keys"),
        ("a STRING, b INT", "a", "", {"bucket": "1", "bucket_function__type": "mod"}, "INT or BIGINT"),
        ("a INT, b INT", "a b", "", {"bucket": "1", "bucket_function__type": "mod"}, "INT or BIGINT"),
        ("a TIMESTAMP(3), b INT", "a", "", {"bucket": "1", "bucket_function__type": "hive"}, "no hash of a TIMESTAMP"),
        ("a INT, b INT", "a", "", {"bucket": "1", "sequence__field": "z"}, "'sequence.field': 'z' can not be found"),
        ("a INT, b INT", "a", "", {"bucket": "1", "sequence__field": "b,b"}, "'b' is defined repeatedly"),
        ("a INT, p INT", "a", "p", {"bucket": "1", "sequence__field": "a"}, "cross partition"),
        ("a INT, b INT", "", "", {"bucket": "-1", "sequence__snapshot_ordering": "true"}, "requires a primary-key"),
        ("a INT, b INT", "a", "", {"bucket": "-1", "sequence__snapshot_ordering": "true"}, "'write-only' = true"),
        ("a INT, b INT", "a", "", {"bucket": "1", "rowkind__field": "z"}, "'z' can not be found"),
        ("a INT, b INT", "a", "", {"bucket": "1", "data_file__prefix": ""}, "'data-file.prefix': '' cannot begin"),
        ("a INT, b INT", "a", "", {"bucket": "1", "changelog_file__prefix": ".."}, "'changelog-file.prefix': '..'"),
        ("a INT, b INT", "a", "", {"bucket": "1", "rowkind__field": "b"}, "only string"),
        ("a INT, b INT", "", "", {"bucket": "1", "changelog_producer": "input"}, "define"),
        ("a INT, b INT", "", "", {"bucket": "1"}, "'bucket-key' is missing"),
        ("a INT, b INT", "a", "", {"bucket": "1", "record_level__expire_time": "1 d"}, "needs 'record-level.time"),
        ("a INT, b INT", "a", "", {"bucket": "1", **_EXPIRING, "record_level__time_field": "z"}, "time field 'z'"),
        ("a INT, b STRING", "a", "", {"bucket": "1", **_EXPIRING}, "should be one of INT, BIGINT, or TIMESTAMP"),
        ("a INT, b INT", "a", "", {"bucket": "1", "metadata__stats_mode": "truncate(0)"}, "metadata.stats-mode"),
        ("a INT, b INT", "a", "", {"bucket": "1", "fields__b__stats_mode": "some"}, "fields.b.stats-mode"),
        (
            "a INT, b INT", "a", "",
            {"bucket": "1", "changelog_producer__row_deduplicate_ignore_fields": "z"}, "'z' can not be found",
        ),
        (
            "a INT, b INT", "a", "",
            {"bucket": "1", "changelog_producer": "lookup", "streaming_read_overwrite": "true"}, "read twice",
        ),
        (
            "a INT, b INT", "a", "",
            {"bucket": "1", "changelog_producer": "full-compaction", "streaming_read_overwrite": "true"}, "read twice",
        ),
        (
            "a INT, b INT", "a", "",
            {"bucket": "1", "changelog_producer": "lookup", "full_compaction__delta_commits": "3"},
            "'full-compaction.delta-commits' is incompatible with 'changelog-producer'='lookup'",
        ),
        ("a INT, b INT", "a", "", {"bucket": "1", "full_compaction__delta_commits": "0"}, "must be at least 1"),
        ("a INT, b INT", "a", "", {"bucket": "1", "num_levels": "1"}, "'num-levels': 1 is too small"),
        ("a INT, b INT", "a", "", {"bucket": "1", "target_file_row_num": "0"}, "must be at least 1"),
        (
            "a INT, b INT", "a", "", {"bucket": "1", "merge_engine": "first-row", "sequence__field": "b"},
            "'sequence.field': a sequence field is not possible on the FIRST_ROW merge engine",
        ),
        (
            "a INT, b INT", "a", "", {"bucket": "1", "merge_engine": "first-row", "changelog_producer": "input"},
            "'changelog-producer': only 'none' and 'lookup' are possible on the FIRST_ROW merge engine",
        ),
        (
            "a INT, b INT", "a", "",
            {"bucket": "1", "merge_engine": "first-row", "changelog_producer": "full-compaction"}, "only 'none' and",
        ),
        (
            "a INT, b INT", "a", "",
            {
                "bucket": "1", "merge_engine": "aggregation", "sequence__field": "b",
                "fields__b__aggregate_function": "sum",
            },
            "'fields.b.aggregate-function': there should be no aggregation on a sequence field",
        ),
        (
            "a INT, b ROW<c INT>", "a", "", {"bucket": "1", "fields__b__c__aggregate_function": "sum"},
            "'fields.b.c.aggregate-function': a nested-field path is not supported on field 'b'",
        ),
        ("a INT, b INT", "a", "", {"bucket": "1", "fields__z__aggregate_function": "sum"}, "field z can not be found"),
        ("a ARRAY<INT>, b INT", "a", "", {"bucket": "1"}, "in primary key field 'a' is unsupported"),
        ("a INT, p ARRAY<INT>", "a", "p", {"bucket": "1"}, "in partition field 'p' is unsupported"),
        ("p INT, b INT", "p", "p", {"bucket": "1"}, "should not be the same as the partition fields"),
        (
            "a INT, b INT", "a", "",
            {"bucket": "1", "scan__timestamp": "2024-01-01 00:00:00", "scan__timestamp_millis": "1"}, "only one",
        ),
    ],
)  # fmt: skip
def test_what_paimon_refuses_is_refused(
    columns: str, primary: str, partition: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)) as caught:
        validate(columns, primary, partition, **options)
    assert not isinstance(caught.value, UnsupportedFeature)


@pytest.mark.parametrize("option", ["bucket", "num_levels", "num_sorted_run__compaction_trigger"])
def test_largest_numbers_cost_nothing_to_check(option: str) -> None:
    validate("a INT, b INT", "a", **{"bucket": "1", option: "2147483647"})


@pytest.mark.parametrize("engine", ["deduplicate", "first-row"])
def test_tables_of_java_with_options_without_effect_pass(engine: str) -> None:
    options = {
        "bucket": "1", "merge_engine": engine, "file__format__per__level": "99:avro", "write_only": "true",
        "fields__b__aggregate_function": "sum", "fields__b__sequence_group": "b", "fields__b__count_limit": "5",
        "file__compression__zstd_level": "99", "deletion_vectors__bitmap64": "true",
        "aggregation__remove_record_on_delete": "true", "changelog_producer__row_deduplicate": "true",
        "sequence__field__sort_order": "descending",
    }  # fmt: skip
    validate("a INT, b INT", "a", **options)


@pytest.mark.parametrize(
    ("columns", "primary", "partition", "options", "words"),
    [
        ("a INT, b INT", "a", "", {"bucket": "1", "target_file_row_num": "5"}, "'target-file-row-num'"),
        ("a INT, b INT", "a", "", {"bucket": "1", "merge_engine": "last-row"}, "'merge-engine': 'last-row'"),
        ("a INT, b INT", "a", "", {"bucket": "1", "file__compression": "brotli"}, "file.compression"),
        ("a INT, b ARRAY<INT>", "a", "", {"bucket": "1", "sequence__field": "b"}, "nested type"),
        ("a INT, p BYTES", "a p", "p", {"bucket": "1"}, "partition column 'p'"),
        ("a INT, p INT", "a", "p", {"bucket": "2"}, "partition column 'p' is not part of the primary key (a)"),
        ("a INT, p INT, q INT", "a p", "p q", {"bucket": "2"}, "partition column 'q' is not part of the primary key"),
        (
            "a INT, p TIMESTAMP_LTZ(3)", "a p", "p",
            {"bucket": "1", "partition__legacy_name": "false"}, "partition.legacy-name=true",
        ),
    ],
)  # fmt: skip
def test_what_tidemark_cannot_write_is_refused_as_unsupported(
    columns: str, primary: str, partition: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UnsupportedFeature, match=re.escape(words)):
        validate(columns, primary, partition, **options)


@pytest.mark.parametrize(
    ("column_type", "words"),
    [
        ("ROW<x INT, x STRING>", "column 'b': ROW<x INT, x STRING> has two fields called 'x'"),
        ("ARRAY<ROW<x INT, y ROW<z INT, z INT>>>", "column 'b': b.element.y: ROW<z INT, z INT> has two fields"),
        ("MAP<STRING, ROW<x INT, x INT>>", "column 'b': b.value: ROW<x INT, x INT> has two fields called 'x'"),
        ("MAP<ROW<x INT, x INT>, INT>", "column 'b': b.key: "),
        ("ROW<>", "column 'b': ROW<> has no fields"),
        ("ARRAY<ROW<x ROW<> NOT NULL>>", "column 'b': b.element.x: ROW<> NOT NULL has no fields"),
        ("ROW<` ` INT>", "column 'b': ROW<  INT> has a field without a name"),
    ],
)
def test_rows_need_fields_of_different_names(column_type: str, words: str) -> None:
    columns = [("a", parse_type("INT")), ("b", parse_type(column_type))]
    with pytest.raises(ConfigError, match=re.escape(words)):
        validate_table(create_schema(columns, ["a"], options={"bucket": "1"}))


def test_names_that_differ_in_case_or_level_are_different() -> None:
    columns = [("a", parse_type("INT")), ("b", parse_type("ROW<a INT, A INT, b ROW<a INT, b INT>>"))]
    validate_table(create_schema(columns, ["a"], options={"bucket": "1"}))
