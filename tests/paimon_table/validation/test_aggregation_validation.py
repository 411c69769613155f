from __future__ import annotations

import pytest

from paimon_table.errors import ConfigError
from paimon_table.schema.table_schema import create_schema
from paimon_table.types import parse_type
from paimon_table.validation.table_validation import validate_table


def _validate(type_text: str, **options: str) -> None:
    validate_table(
        create_schema(
            [("k", parse_type("INT")), ("v", parse_type(type_text))],
            ["k"],
            [],
            {"bucket": "1", "merge-engine": "aggregation", **options},
        )
    )


def test_functions_are_checked_when_the_table_is_created() -> None:
    _validate("INT", **{"fields.v.aggregate-function": "sum"})
    with pytest.raises(ConfigError, match="'sum' takes a numeric type"):
        _validate("STRING", **{"fields.v.aggregate-function": "sum"})
    with pytest.raises(ConfigError, match="'not_exist' is unknown"):
        _validate("INT", **{"fields.default-aggregate-function": "not_exist"})


def test_other_engines_do_not_look_at_functions() -> None:
    _validate("STRING", **{"merge-engine": "deduplicate", "fields.v.aggregate-function": "sum"})


def test_removing_on_delete_conflicts_with_ignored_retracts() -> None:
    removing = {"aggregation.remove-record-on-delete": "true", "fields.v.aggregate-function": "sum"}
    _validate("INT", **removing, **{"ignore-delete": "true"})
    with pytest.raises(ConfigError, match=r"aggregation\.remove-record-on-delete.*fields\.v\.ignore-retract.*conflict"):
        _validate("INT", **removing, **{"fields.v.ignore-retract": "true"})


@pytest.mark.parametrize("strategy", ["merge", "ignore"])
def test_a_null_strategy_needs_a_nested_key(strategy: str) -> None:
    options = {"fields.v.aggregate-function": "nested_update", "fields.v.nested-key-null-strategy": strategy}
    _validate("ARRAY<ROW<a INT>>", **options, **{"fields.v.nested-key": "a"})
    with pytest.raises(ConfigError, match=r"fields\.v\.nested-key-null-strategy' requires 'fields\.v\.nested-key'"):
        _validate("ARRAY<ROW<a INT>>", **options)


@pytest.mark.parametrize("engine", ["aggregation", "partial-update"])
@pytest.mark.parametrize("option", ["fields.default-aggregate-function", "fields.k.aggregate-function"])
def test_unknown_functions_that_no_column_uses_are_refused(engine: str, option: str) -> None:
    schema = create_schema(
        [("k", parse_type("INT"))], ["k"], options={"bucket": "1", "merge-engine": engine, option: "nosuch"}
    )
    with pytest.raises(ConfigError, match=f"option '{option}': aggregate function 'nosuch' is unknown"):
        validate_table(schema)
