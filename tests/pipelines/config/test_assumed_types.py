"""Columns that a file names without a type must not be taken for mistakes."""

from __future__ import annotations

import pytest

from paimon_table.merge.aggregate.registry import FUNCTION_NAMES, aggregate_function
from paimon_table.options.option_parsing import parse_options
from paimon_table.schema.table_schema import create_schema
from paimon_table.types import DataField, parse_type
from pipelines.config.assumed_types import assumed_columns, assumed_type


@pytest.mark.parametrize("function", sorted({*FUNCTION_NAMES} - {"hll_sketch", "theta_sketch"}))
@pytest.mark.parametrize("name", ["fields.c.aggregate-function", "fields.default-aggregate-function"])
def test_every_function_takes_the_type_that_is_assumed_for_it(function: str, name: str) -> None:
    options = {name: function, "fields.c.nested-key": "id, no", "fields.c.ts-field": "at"}
    if function == "nested_update":
        options["fields.c.nested-sequence-field"] = "version"
    column = assumed_type("c", options)
    schema = create_schema([("k", parse_type("INT")), ("c", column)], ["k"], (), {"bucket": "1"})
    field_options = parse_options(options, schema).field_options.of("c")
    assert aggregate_function(function, DataField(1, "c", column), field_options).accumulator().value is None


def test_all_columns_that_options_name_are_known() -> None:
    options = {
        "sequence.field": "s, t",
        "rowkind.field": "op",
        "fields.g,h.sequence-group": "a,b",
        "fields.default-aggregate-function": "sum",
        "fields.b.aggregate-function": "collect",
        "file-index.bloom-filter.columns": "i,m[key]",
        "changelog-producer.row-deduplicate-ignore-fields": "n",
        "record-level.time-field": "w",
    }
    assert {name: str(type_) for name, type_ in assumed_columns(options).items()} == {
        "s": "STRING", "t": "STRING", "op": "STRING", "g": "INT", "h": "INT", "a": "INT", "b": "ARRAY<STRING>",
        "i": "INT", "m": "MAP<STRING, STRING>", "n": "INT", "w": "BIGINT",
    }  # fmt: skip
