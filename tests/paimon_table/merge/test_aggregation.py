"""The aggregation engine on rows in memory."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.data_files.bucket_files import row_schema
from paimon_table.errors import MalformedRecord
from paimon_table.merge.function import MergeFunction, merge_function
from paimon_table.merge.sort import KeyOrder
from paimon_table.options.option_parsing import options_of
from paimon_table.schema.table_schema import TableSchema, create_schema
from paimon_table.types import parse_type

KINDS = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}
SHORT = {number: text for text, number in KINDS.items()}
Row = tuple[Any, ...]
"""Kind, then the values."""


class Engine:
    """The engine of a table with key ``k``, on rows with sequence numbers in the order given."""

    def __init__(self, columns: dict[str, str], **options: str) -> None:
        named = {name.replace("__", "."): value for name, value in options.items()}
        self.schema: TableSchema = create_schema(
            [("k", parse_type("INT")), *((name, parse_type(t)) for name, t in columns.items())],
            ["k"],
            [],
            {"bucket": "1", "merge-engine": "aggregation", **named},
        )
        parsed = options_of(self.schema)
        self.order = KeyOrder(self.schema, parsed)
        self.function: MergeFunction = merge_function(self.schema, parsed)

    def table(self, rows: Sequence[Row]) -> pa.Table:
        arrow = row_schema(self.schema)
        values = list(zip(*rows, strict=True))
        columns = [range(len(rows)), [KINDS[kind] for kind in values[0]], *values[1:]]
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, arrow, strict=True)], schema=arrow)

    def merge(self, rows: pa.Table, single_passes: bool = True) -> pa.Table:
        merged = self.function.merge(rows, self.order.sort(rows), single_passes)
        merged.validate(full=True)
        assert merged.schema == rows.schema
        return merged

    def merged(self, *rows: Row, single_passes: bool = True) -> list[Row]:
        return plain(self.merge(self.table(rows), single_passes))


def plain(table: pa.Table) -> list[Row]:
    """Rows as (kind, values...)."""
    columns = [table.column(i).to_pylist() for i in range(1, table.num_columns)]
    return [(SHORT[row[0]], *row[1:]) for row in zip(*columns, strict=True)]


def test_each_column_follows_its_function() -> None:
    engine = Engine(
        {"s": "INT", "m": "STRING", "d": "INT"},
        **{"fields.s.aggregate-function": "sum", "fields.m.aggregate-function": "max"},
    )
    assert engine.merged(("+I", 1, 5, "b", 1), ("+U", 2, 1, "x", None), ("+U", 1, 6, "a", None)) == [
        ("+I", 1, 11, "b", 1),
        ("+U", 2, 1, "x", None),
    ]


def test_default_function_does_not_touch_sequence_fields() -> None:
    engine = Engine({"seq": "INT", "v": "INT"}, **{"sequence.field": "seq", "fields.default-aggregate-function": "sum"})
    assert engine.merged(("+I", 1, 7, 1), ("+I", 1, 3, 2)) == [("+I", 1, 7, 3)]
    assert engine.merged(("+I", 1, 5, 50), ("-D", 1, 6, 50)) == [("+I", 1, None, 0)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"sequence.field": "k"},
        {"sequence.field": "v,k"},
        {"fields.k.ignore-retract": "true"},
        {"sequence.field": "k", "fields.k.ignore-retract": "true"},
        {"fields.default-aggregate-function": "sum"},
        {"fields.k.aggregate-function": "sum"},
    ],
)
def test_key_columns_keep_their_value_whatever_the_options_say(options: dict[str, str]) -> None:
    engine = Engine({"v": "INT"}, **options)
    for rows in ([("-D", 1, 1)], [("-U", 1, 1), ("-D", 1, 1)], [("+I", 1, 1), ("-D", 1, 1)]):
        assert [row[1] for row in engine.merged(*rows, single_passes=False)] == [1]


def test_merged_row_has_the_sequence_number_of_the_newest_version() -> None:
    engine = Engine({"seq": "INT"}, **{"sequence.field": "seq"})
    merged = engine.merge(engine.table([("+I", 1, 9), ("+I", 1, 3), ("+I", 1, 4)]))
    assert merged.column("_SEQUENCE_NUMBER").to_pylist() == [0]


def test_a_single_version_passes_untouched_unless_values_are_looked_up() -> None:
    functions = {"fields.s.aggregate-function": "sum", "fields.l.aggregate-function": "listagg"}
    engine = Engine({"s": "INT", "l": "STRING"}, **functions, **{"fields.l.ignore-retract": "true"})
    single, other = ("-D", 1, 5, " "), [("+I", 2, 1, "a"), ("+I", 2, 1, "b")]
    assert engine.merged(single, *other) == [single, ("+I", 2, 2, "a,b")]
    assert engine.merged(single, *other, single_passes=False) == [("+I", 1, -5, None), ("+I", 2, 2, "a,b")]


def test_a_single_retract_passes_functions_that_cannot_retract() -> None:
    engine = Engine({"m": "INT"}, **{"fields.m.aggregate-function": "max"})
    assert engine.merged(("-D", 1, 5), ("+I", 2, 1), ("+I", 2, 3)) == [("-D", 1, 5), ("+I", 2, 3)]
    with pytest.raises(MalformedRecord, match="'max' does not support retraction"):
        engine.merged(("+I", 1, 5), ("-D", 1, 5))
    with pytest.raises(MalformedRecord, match="'max' does not support retraction"):
        engine.merged(("-D", 1, 5), single_passes=False)


def test_retracts_are_applied_to_every_column() -> None:
    engine = Engine(
        {"s": "INT", "c": "ARRAY<INT>", "d": "INT"},
        **{"fields.s.aggregate-function": "sum", "fields.c.aggregate-function": "collect"},
    )
    rows = [("+I", 1, 5, [1, 2], 7), ("-U", 1, 2, [2], 7), ("+I", 2, 1, None, 1), ("-D", 2, 1, [3], None)]
    assert engine.merged(*rows) == [("+I", 1, 3, [1], None), ("+I", 2, 0, None, 1)]


def _removing(**functions: str) -> Engine:
    options = {f"fields.{name}.aggregate-function": function for name, function in functions.items()}
    return Engine(dict.fromkeys(functions, "INT"), **{"aggregation.remove-record-on-delete": "true", **options})


def test_a_delete_removes_the_row_and_an_update_before_retracts() -> None:
    engine = _removing(s="sum")
    assert engine.merged(("+I", 1, 10), ("-D", 1, 4)) == [("-D", 1, 4)]
    assert engine.merged(("+I", 1, 10), ("-U", 1, 4)) == [("+I", 1, 6)]
    assert engine.merged(("-D", 1, 4), single_passes=False) == [("-D", 1, 4)]


def test_values_of_a_delete_are_what_later_versions_add_to() -> None:
    engine = _removing(s="sum", m="max", f="first_value", d="last_non_null_value")
    assert engine.merged(("+I", 1, 10, 99, 1, 8), ("-D", 1, 10, 4, 2, 8), ("+I", 1, 5, 2, 3, None)) == [
        ("+I", 1, 15, 4, 3, 8)
    ]
    assert _removing(s="sum").merged(("+I", 1, 10), ("-D", 1, 10), ("-U", 1, 3)) == [("+I", 1, 7)]


def test_first_value_after_a_delete_does_not_depend_on_what_was_merged_before() -> None:
    engine = _removing(f="first_value")
    history = [("+I", 1, 10), ("-D", 1, 99), ("+I", 1, 5)]
    assert engine.merged(*history) == engine.merged(*engine.merged(*history[:2]), history[2]) == [("+I", 1, 5)]


def test_columns_that_were_not_read_are_left_out() -> None:
    engine = Engine({"a": "INT", "b": "INT"}, **{"fields.a.aggregate-function": "sum"})
    rows = engine.table([("+I", 1, 5, 1), ("+I", 1, 6, 2)]).drop_columns(["b"])
    assert plain(engine.merge(rows)) == [("+I", 1, 11)]


def test_a_retract_may_not_clear_a_column_that_is_not_null() -> None:
    engine = Engine({"a": "INT NOT NULL"})
    assert engine.merged(("+I", 1, 5), ("+I", 1, 6)) == [("+I", 1, 6)]
    with pytest.raises(MalformedRecord, match="'a' without a value"):
        engine.merged(("+I", 1, 5), ("-U", 1, 5))


def test_no_rows_merge_to_no_rows() -> None:
    engine = Engine({"a": "INT"})
    empty = row_schema(engine.schema).empty_table()
    assert engine.merge(empty).num_rows == 0


# ---------------------------------------------------------------- cuts

_COLUMNS = {
    "sum_": "INT",
    "max_": "STRING",
    "last_": "INT",
    "lastnn": "INT",
    "first_": "INT",
    "firstnn": "STRING",
    "list_": "STRING",
    "listd": "STRING",
    "coll": "ARRAY<INT>",
    "colld": "ARRAY<INT>",
    "map_": "MAP<STRING, INT>",
    "nest": "ARRAY<ROW<a INT, b STRING>>",
    "part": "ARRAY<ROW<a INT, b STRING>>",
}
_OPTIONS = {
    **{f"fields.{name}.distinct": "true" for name in ("listd", "colld")},
    **{f"fields.{name}.nested-key": "a" for name in ("nest", "part")},
    **{
        f"fields.{name}.aggregate-function": function
        for name, function in {
            "sum_": "sum",
            "max_": "max",
            "last_": "last_value",
            "first_": "first_value",
            "firstnn": "first_non_null_value",
            "list_": "listagg",
            "listd": "listagg",
            "coll": "collect",
            "colld": "collect",
            "map_": "merge_map",
            "nest": "nested_update",
            "part": "nested_partial_update",
        }.items()
    },
}
_INTS = st.none() | st.integers(-3, 3)
_TEXTS = st.none() | st.sampled_from(["", " ", "a", "b", "a,b", "b,c"])
_NESTED = st.none() | st.lists(st.none() | st.fixed_dictionaries({"a": st.integers(0, 2), "b": _TEXTS}), max_size=3)
_ARRAYS = st.none() | st.lists(_INTS, max_size=3)
_MAPS = st.none() | st.dictionaries(st.sampled_from("xyz"), _INTS).map(lambda d: list(d.items()))
_ADDED = st.tuples(
    st.sampled_from(["+I", "+U"]), st.integers(0, 2), _INTS, _TEXTS, _INTS, _INTS, _INTS, _TEXTS, _TEXTS, _TEXTS,
    _ARRAYS, _ARRAYS, _MAPS, _NESTED, _NESTED,
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(rows=st.lists(_ADDED, min_size=1, max_size=12), seed=st.integers(0, 10_000))
def test_added_rows_give_the_same_wherever_flushes_and_compactions_cut_them(rows: list[Row], seed: int) -> None:
    engine = Engine(_COLUMNS, **_OPTIONS)
    runs = [engine.table(rows).slice(i, 1) for i in range(len(rows))]
    rng = random.Random(seed)
    while len(runs) > 1:
        start = rng.randrange(len(runs) - 1)
        stop = rng.randint(start + 2, len(runs))
        runs[start:stop] = [engine.merge(pa.concat_tables(runs[start:stop]))]

    assert runs[0].equals(engine.merge(engine.table(rows)))


_CHANGED = st.tuples(st.sampled_from(list(KINDS)), st.integers(0, 2), st.integers(-3, 3), st.integers(0, 3))


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(_CHANGED, min_size=2, max_size=12), cut=st.integers(1, 11))
def test_sums_with_retracts_do_not_depend_on_the_cuts_once_all_is_merged(rows: list[Row], cut: int) -> None:
    engine = Engine({"a": "INT", "b": "INT"}, **{"fields.default-aggregate-function": "sum"})
    table = engine.table(rows)
    parts = [part for part in (table.slice(0, cut), table.slice(cut)) if part.num_rows]

    in_two = engine.merge(pa.concat_tables([engine.merge(part) for part in parts]))

    assert in_two.equals(engine.merge(table))
