"""What one merge of the partial-update engine makes of the versions of a key, by vectors and by the fold."""

from __future__ import annotations

import pytest

from paimon_table.errors import MalformedRecord
from paimon_table.row_kind import SEQUENCE_NUMBER
from tests.support.partial_update_rows import EngineTable, Row, plain

REMOVE_ON_DELETE = {"partial-update.remove-record-on-delete": "true"}
ONE_GROUP = {"fields.g.sequence-group": "a"}
SUM_GROUP = {**ONE_GROUP, "fields.a.aggregate-function": "sum"}
TWO_GROUPS = {"fields.g.sequence-group": "a", "fields.h.sequence-group": "b"}
REMOVE_ON_G = {**TWO_GROUPS, "partial-update.remove-record-on-sequence-group": "g"}

both_paths = pytest.mark.parametrize("fold", [False, True], ids=["vector", "fold"])


def merged(columns: str, options: dict[str, str], rows: list[Row], fold: bool, single_passes: bool = True) -> Row:
    (row,) = EngineTable.make(columns, options).merge(rows, single_passes, fold)
    return row


# ---------------------------------------------------------------- adds


@both_paths
def test_nulls_do_not_overwrite(fold: bool) -> None:
    table = EngineTable.make("a b:STRING")
    rows = [("+I", 2, None, "x"), ("+I", 1, 1, None), ("+U", 1, None, "y"), ("+I", 2, None, None), ("+I", 1, 3, None)]
    assert table.merge(rows, fold=fold) == [("+I", 1, 3, "y"), ("+I", 2, None, "x")]


@both_paths
def test_a_key_with_one_version_passes_as_it_is_or_is_normalized(fold: bool) -> None:
    table = EngineTable.make("a g", ONE_GROUP)
    assert table.merge([("+U", 1, 7, None)], fold=fold) == [("+U", 1, 7, None)]
    assert table.merge([("+U", 1, 7, None)], single_passes=False, fold=fold) == [("+I", 1, None, None)]


@both_paths
def test_single_and_merged_keys_stand_in_key_order(fold: bool) -> None:
    table = EngineTable.make("a:STRING")
    rows = [("+U", 3, "c"), ("-D", 1, "a"), ("+I", 2, "x"), ("+I", 2, None), ("+U", 4, None)]
    assert table.merge(rows, fold=fold) == [("-D", 1, "a"), ("+I", 2, "x"), ("+U", 3, "c"), ("+U", 4, None)]


@both_paths
def test_the_merged_row_has_the_sequence_number_of_the_last_version_in_order(fold: bool) -> None:
    table = EngineTable.make("s a", {"sequence.field": "s"})
    rows = table.merge_table(table.rows([("+I", 1, 9, 1), ("+I", 1, 5, 2), ("+I", 1, None, 3)]), fold=fold)
    assert plain(rows) == [("+I", 1, 9, 1)]
    assert rows.column(SEQUENCE_NUMBER).to_pylist() == [0]


@both_paths
def test_nested_values_are_taken_whole(fold: bool) -> None:
    table = EngineTable.make("a:ARRAY<INT> m:MAP<STRING,INT>")
    rows = [("+I", 1, [1, None], None), ("+I", 1, None, [("x", 1)]), ("+I", 1, None, None)]
    assert table.merge(rows, fold=fold) == [("+I", 1, [1, None], [("x", 1)])]


# ---------------------------------------------------------------- sequence groups


@both_paths
def test_groups_without_a_sequence_are_left_alone(fold: bool) -> None:
    options = {"fields.g.sequence-group": "a,b", "fields.h.sequence-group": "c,d"}
    rows: list[Row] = [("+I", 1, 1, 1, 1, 1, 1, 1), ("+I", 1, 2, 2, 2, 2, 2, None)]
    assert merged("a b g c d h", options, rows, fold) == ("+I", 1, 2, 2, 2, 1, 1, 1)
    rows.append(("+I", 1, 3, 3, 1, 3, 3, 3))
    assert merged("a b g c d h", options, rows, fold) == ("+I", 1, 2, 2, 2, 3, 3, 3)


@both_paths
def test_sequences_of_several_columns_compare_left_to_right_with_null_first(fold: bool) -> None:
    options = {"fields.g,h.sequence-group": "a"}
    rows = [("+I", 1, 1, 1, None), ("+I", 1, 2, 1, 1), ("+I", 1, 3, None, 9), ("+I", 1, 4, 1, None)]
    assert merged("a g h", options, rows, fold) == ("+I", 1, 2, 1, 1)


@both_paths
@pytest.mark.parametrize(
    ("sequence_type", "older", "newer"),
    [
        ("STRING", "same-prefix-a", "same-prefix-b"),
        ("DOUBLE", -0.0, 0.0),
        ("BOOLEAN", False, True),
        ("BYTES", b"", b"\0"),
    ],
)
def test_sequences_of_all_types_compare_by_value(sequence_type: str, older: object, newer: object, fold: bool) -> None:
    rows = [("+I", 1, 1, newer), ("+I", 1, 2, older), ("+I", 1, 3, None)]
    assert merged(f"a g:{sequence_type}", ONE_GROUP, rows, fold)[2] == 1


@both_paths
def test_of_equal_sequences_the_later_row_wins_also_with_nulls(fold: bool) -> None:
    assert merged("g a", ONE_GROUP, [("+I", 1, 5, 1), ("+I", 1, 5, None)], fold) == ("+I", 1, 5, None)


@both_paths
def test_a_sort_order_of_the_sequence_field_does_not_turn_groups_around(fold: bool) -> None:
    options = {**ONE_GROUP, "sequence.field": "s", "sequence.field.sort-order": "descending"}
    rows = [("+I", 1, 1, 5, 1), ("+I", 1, 2, 4, 0)]
    assert merged("a g s", options, rows, fold) == ("+I", 1, 1, 5, 0)


# ---------------------------------------------------------------- deletes


@both_paths
@pytest.mark.parametrize("rows", [[("+I", 1, 1), ("-D", 1, 1)], [("-U", 1, 1), ("+U", 1, 2)]])
def test_a_retract_that_no_option_allows_is_refused_with_the_remedies(rows: list[Row], fold: bool) -> None:
    table = EngineTable.make("a")
    with pytest.raises(MalformedRecord, match=r"partial update cannot accept delete records.*'k': 1") as caught:
        table.merge(rows, fold=fold)
    for remedy in ("ignore-delete", "partial-update.remove-record-on-delete", "sequence-group"):
        assert remedy in str(caught.value)


@both_paths
def test_a_lone_delete_is_refused_only_where_the_engine_sees_it(fold: bool) -> None:
    table = EngineTable.make("a")
    assert table.merge([("-D", 1, 5)], fold=fold) == [("-D", 1, 5)]
    with pytest.raises(MalformedRecord):
        table.merge([("-D", 1, 5)], single_passes=False, fold=fold)


@both_paths
def test_ignored_deletes_of_old_files_have_no_effect(fold: bool) -> None:
    table = EngineTable.make("a b", {"ignore-delete": "true"})
    rows = [("-D", 1, 9, 9), ("+I", 1, 1, None), ("-U", 1, 9, 9), ("-D", 2, 1, 1), ("-U", 2, 2, 2)]
    assert table.merge(rows, fold=fold) == [("+I", 1, 1, None), ("-U", 2, 2, 2)]


@both_paths
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("+I", 1, 1, 1), ("-D", 1, 9, 9)], ("-D", 1, 9, 9)),
        ([("+I", 1, 1, 1), ("-D", 1, 9, 9), ("+I", 1, 2, None)], ("+I", 1, 2, 9)),
        ([("+I", 1, 1, 1), ("-D", 1, 9, 9), ("-U", 1, 5, 5)], ("+I", 1, 9, 9)),
        ([("+I", 1, 1, 1), ("-U", 1, 5, 5)], ("+I", 1, 1, 1)),
        ([("+I", 1, 1, 1), ("-D", 1, None, None), ("+I", 1, None, 2)], ("+I", 1, None, 2)),
        ([("-U", 1, 5, 5), ("+U", 1, 6, None)], ("+I", 1, 6, 5)),
        ([("-U", 1, 5, 5), ("-U", 1, 6, 6)], ("-D", 1, 5, 5)),
        ([("-D", 1, 5, 5), ("-U", 1, 6, 6)], ("-D", 1, 5, 5)),
        ([("+I", 1, 1, 1), ("-D", 1, 2, 2), ("-D", 1, None, 3), ("+I", 1, 4, None)], ("+I", 1, 4, 3)),
    ],
)
def test_remove_record_on_delete(rows: list[Row], expected: Row, fold: bool) -> None:
    assert merged("a b", REMOVE_ON_DELETE, rows, fold) == expected


@pytest.mark.slow
@both_paths
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("-D", 1, 5, 1, 7), ("+I", 1, 6, 2, None)], ("+I", 1, 6, 2, 7)),
        ([("+I", 1, 5, 1, 7), ("-D", 1, 6, 2, 8)], ("+I", 1, None, 2, 7)),
        ([("+I", 1, 5, 3, 7), ("-D", 1, 6, 2, 8)], ("+I", 1, 5, 3, 7)),
        ([("-D", 1, 5, None, 7), ("+I", 1, 6, None, None)], ("+I", 1, 5, None, 7)),
        ([("-D", 1, 5, None, 7), ("-D", 1, 6, 1, 8)], ("-D", 1, None, 1, 7)),
        ([("-D", 1, 5, 4, 7), ("+I", 1, 6, 3, 8)], ("+I", 1, None, 4, 8)),
    ],
)
def test_retracts_of_a_group_clear_it(rows: list[Row], expected: Row, fold: bool) -> None:
    assert merged("a g u", ONE_GROUP, rows, fold) == expected


@both_paths
def test_a_delete_alone_is_normalized_where_the_engine_sees_it(fold: bool) -> None:
    assert merged("a g u", ONE_GROUP, [("-D", 1, 5, 3, 7)], fold, single_passes=False) == ("-D", 1, None, 3, 7)


@both_paths
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("+I", 1, 0, 1, 0, 1), ("-D", 1, 1, 2, 2, 2)], ("-D", 1, 1, 2, 2, 2)),
        ([("+I", 1, 0, 1, 0, 1), ("-U", 1, 1, 2, 2, 2)], ("+I", 1, None, 2, None, 2)),
        ([("+I", 1, 0, 1, 0, 1), ("-D", 1, 1, 2, 2, 2), ("+I", 1, None, None, 3, 3)], ("+I", 1, 1, 2, 3, 3)),
        ([("+I", 1, 0, 5, 0, 1), ("-D", 1, 1, 2, 2, 2)], ("+I", 1, 0, 5, None, 2)),
        ([("+I", 1, 0, 5, 0, 1), ("-D", 1, 1, None, 2, 2)], ("+I", 1, 0, 5, None, 2)),
        ([("+I", 1, 0, None, 0, 1), ("-D", 1, 1, 0, 2, 2)], ("-D", 1, 1, 0, 2, 2)),
    ],
)
def test_remove_record_on_sequence_group(rows: list[Row], expected: Row, fold: bool) -> None:
    assert merged("a g b h", REMOVE_ON_G, rows, fold) == expected


# ---------------------------------------------------------------- aggregates in groups


@both_paths
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("-D", 1, 3, 1), ("+I", 1, 10, 2)], ("+I", 1, 10, 2)),
        ([("+I", 1, 10, 2), ("-D", 1, 3, 1), ("-U", 1, 4, 3)], ("+I", 1, 3, 3)),
        ([("+I", 1, 10, 2), ("+I", 1, 5, 1), ("+I", 1, 7, None)], ("+I", 1, 15, 2)),
        ([("+I", 1, 7, None), ("+I", 1, 8, None)], ("+I", 1, None, None)),
    ],
)
def test_a_sum_counts_late_rows_and_takes_retracts_back(rows: list[Row], expected: Row, fold: bool) -> None:
    assert merged("a g", SUM_GROUP, rows, fold) == expected


@both_paths
@pytest.mark.parametrize(
    ("function", "rows", "expected"),
    [
        ("first_value", [(1, 2), (2, 0), (3, 1)], 3),
        ("first_non_null_value", [(10, 2), (None, 1)], None),
        ("last_value", [(None, 2), (5, 1)], None),
        ("last_non_null_value", [(None, 5), (1, 1), (3, 3)], 1),
        ("max", [(1, 2), (9, 0), (3, 1)], 9),
        ("listagg", [("x", 2), ("y", 1), ("z", 3)], "y,x,z"),
    ],
)
def test_late_rows_of_aggregates(function: str, rows: list[Row], expected: object, fold: bool) -> None:
    kind = "STRING" if function == "listagg" else "INT"
    options = {**ONE_GROUP, "fields.a.aggregate-function": function}
    assert merged(f"a:{kind} g", options, [("+I", 1, *row) for row in rows], fold)[2] == expected


@both_paths
def test_the_default_function_holds_for_protected_columns(fold: bool) -> None:
    default = {"fields.default-aggregate-function": "last_non_null_value"}
    options = {**TWO_GROUPS, **default, "fields.a.aggregate-function": "sum"}
    rows = [("+I", 1, 1, 1, 1, 1, 1), ("+I", 1, 2, 2, None, 2, 2), ("+I", 1, None, 3, None, 3, None)]
    assert merged("a g b h u", options, rows, fold) == ("+I", 1, 3, 3, 1, 3, 2)


@both_paths
def test_functions_without_retraction_refuse_it_and_ignore_retract_allows_it(fold: bool) -> None:
    options = {**ONE_GROUP, "fields.a.aggregate-function": "max"}
    rows = [("+I", 1, 5, 1), ("-U", 1, 5, 2)]
    with pytest.raises(MalformedRecord, match="ignore-retract"):
        merged("a g", options, rows, fold)
    assert merged("a g", {**options, "fields.a.ignore-retract": "true"}, rows, fold) == ("+I", 1, 5, 2)


# ---------------------------------------------------------------- NOT NULL and projection


@both_paths
def test_a_not_null_column_stays_filled_in_rows_that_nobody_sees(fold: bool) -> None:
    rows = [("-D", 1, 5, 1), ("-D", 1, 6, 2)]
    assert merged("a:INT! g", ONE_GROUP, rows, fold) == ("-D", 1, 6, 2)


@both_paths
@pytest.mark.parametrize("last", [("-D", 1, 5, 2), ("+I", 1, 5, None)])
def test_a_not_null_column_without_value_is_refused(last: Row, fold: bool) -> None:
    first = ("+I", 1, 5, 1 if last[0] == "-D" else None)
    with pytest.raises(MalformedRecord, match="'a', which is NOT NULL"):
        merged("a:INT! g", ONE_GROUP, [first, last], fold)


def test_a_projection_needs_the_sequences_of_its_groups() -> None:
    engine = EngineTable.make("a g b h u", TWO_GROUPS).engine
    assert engine.needed_columns(["u"]) == ("u",)
    assert engine.needed_columns(["a", "u"]) == ("a", "u", "g")
    two = EngineTable.make("a g h", {"fields.g,h.sequence-group": "a"}).engine
    assert two.needed_columns(["h"]) == ("h", "g")


def test_a_projection_needs_the_sequences_that_remove_rows() -> None:
    engine = EngineTable.make("a g b h u", REMOVE_ON_G).engine
    assert engine.needed_columns(["u"]) == ("u", "g")


@both_paths
@pytest.mark.parametrize("columns", [["u"], ["a"], ["b", "u"], ["a", "b", "u"]])
def test_merging_a_projection_equals_projecting_the_merge(columns: list[str], fold: bool) -> None:
    options = {**REMOVE_ON_G, "fields.b.aggregate-function": "sum"}
    table = EngineTable.make("a g b h u", options)
    rows = table.rows([
        ("+I", 1, 1, 5, 1, 5, 1), ("+I", 1, 2, 4, 2, 6, None), ("-U", 1, 3, None, 1, 7, 3),
        ("+I", 2, 1, 1, 1, 1, 1), ("-D", 2, 2, 2, 2, 2, 2),
        ("-D", 3, 1, 1, 1, 1, 1), ("-D", 3, None, None, 2, None, 9),
    ])  # fmt: skip
    names = [*rows.column_names[:2], "k", *table.engine.needed_columns(columns)]
    projected = table.merge_table(rows.select(names), fold=fold)
    assert projected.equals(table.merge_table(rows, fold=fold).select(names))
