from __future__ import annotations

import pickle
from typing import Any

import pytest

from paimon_table.errors import ConfigError
from paimon_table.merge.aggregate.registry import FUNCTION_NAMES
from tests.support.aggregate_functions import function


def test_unknown_names_are_refused_with_all_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"column 'v': .*'not_exist' is unknown") as raised:
        function("not_exist", "INT")
    assert all(name in str(raised.value) for name in FUNCTION_NAMES)


@pytest.mark.parametrize(
    ("name", "type_text", "words"),
    [
        ("sum", "STRING", "numeric type, not STRING"),
        ("product", "BOOLEAN", "numeric"),
        ("count", "DOUBLE", "INT or BIGINT"),
        ("count", "SMALLINT", "INT or BIGINT"),
        ("max", "ARRAY<INT>", "comparable"),
        ("min", "MAP<INT, INT>", "comparable"),
        ("bool_and", "INT", "BOOLEAN"),
        ("bool_or", "INT", "BOOLEAN"),
        ("listagg", "VARCHAR(100)", r"STRING.*not VARCHAR\(100\)"),
        ("listagg", "INT", "STRING"),
        ("collect", "STRING", "ARRAY"),
        ("merge_map", "ARRAY<INT>", "MAP"),
        ("merge_map_with_keytime", "MAP<INT, STRING>", "ROW of at least 2 fields"),
        ("merge_map_with_keytime", "MAP<INT, ROW<a STRING>>", "ROW of at least 2 fields"),
        ("merge_map_with_keytime", "MAP<INT, ROW<a STRING, ts BIGINT>>", "time field 'ts' is a text"),
        ("nested_update", "ARRAY<INT>", "ARRAY<ROW>"),
        ("rbm32", "BINARY(10)", "VARBINARY"),
        ("rbm64", "STRING", "VARBINARY"),
        ("hll_sketch", "STRING", "VARBINARY"),
        ("theta_sketch", "BINARY(3)", "VARBINARY"),
    ],
)
def test_columns_of_a_wrong_type_are_refused(name: str, type_text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"column 'v'.*'{name}' takes .*{words}"):
        function(name, type_text)


@pytest.mark.parametrize(
    ("name", "type_text", "options", "words"),
    [
        ("merge_map_with_keytime", "MAP<INT, ROW<a STRING, b STRING>>", {"ts_field": "c"}, r"ts-field.*'c'.*a, b"),
        ("nested_update", "ARRAY<ROW<a INT>>", {"nested_key": ("x",)}, r"fields\.v\.nested-key.*'x'"),
        (
            "nested_update",
            "ARRAY<ROW<a INT>>",
            {"nested_sequence_fields": ("a",)},
            r"nested-sequence-field.*nested-key",
        ),
        (
            "nested_update",
            "ARRAY<ROW<a INT, s ARRAY<INT>>>",
            {"nested_key": ("a",), "nested_sequence_fields": ("s",)},
            "has no order",
        ),
        ("nested_partial_update", "ARRAY<ROW<a INT>>", {}, r"requires 'fields\.v\.nested-key'"),
    ],
)
def test_options_that_do_not_fit_are_refused(name: str, type_text: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        function(name, type_text, **options)


def test_functions_can_be_sent_to_other_processes() -> None:
    bound = function("collect", "ARRAY<INT>", distinct=True, ignore_retract=True)
    assert pickle.loads(pickle.dumps(bound)) == bound
