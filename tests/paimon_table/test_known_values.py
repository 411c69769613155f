"""What depends on a schema alone is worked out once, however often tasks get the schema."""

from __future__ import annotations

import pickle
from dataclasses import replace

from paimon_table.known_values import once_for_each
from paimon_table.options.option_parsing import parse_options
from paimon_table.schema.table_schema import TableSchema, create_schema
from paimon_table.types import parse_type


def _schema() -> TableSchema:
    return create_schema(
        [("id", parse_type("BIGINT")), ("name", parse_type("STRING"))], ["id"], options={"bucket": "2"}
    )


def test_a_process_has_one_schema_for_all_jobs_that_bring_it() -> None:
    schema = _schema()

    first, second = pickle.loads(pickle.dumps(schema)), pickle.loads(pickle.dumps(schema))

    assert first == schema
    assert second is first
    assert first.key_fields == schema.key_fields
    assert pickle.loads(pickle.dumps(_schema())) is first


def test_a_changed_schema_is_another_one() -> None:
    schema = _schema()
    changed = replace(schema, id=1, options={"bucket": "3"})
    pickle.loads(pickle.dumps(schema))

    brought = pickle.loads(pickle.dumps(changed))

    assert brought == changed
    assert brought != schema


def test_options_travel_as_they_are() -> None:
    options = parse_options({"bucket": "4", "changelog-producer": "lookup"}, _schema())

    brought = pickle.loads(pickle.dumps(options))

    assert brought == options
    assert pickle.loads(pickle.dumps(replace(options, bucket=5))).bucket == 5


def test_equal_values_are_told_apart_and_none_is_taken_for_one_that_is_gone() -> None:
    asked: list[str] = []

    def work_out(value: list[str]) -> str:
        asked.append(value[0])
        return value[0].upper()

    known = once_for_each(work_out, most=2)
    kept = ["a"]
    assert [known(kept), known(kept)] == ["A", "A"]
    assert asked == ["a"]

    results = [known([letter]) for letter in "abcdefgh"]  # each may get the address of the one before

    assert results == list("ABCDEFGH")
    assert len(asked) == 9
