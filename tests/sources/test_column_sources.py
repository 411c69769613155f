"""What a table remembers of its source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sources.column_sources import ColumnSources, PastName, place_key

P0, P1, P2 = (place_key("shop/t", partition) for partition in range(3))
KNOWN = (
    ColumnSources()
    .with_rename("a", "b")
    .with_rename("b", "c")
    .with_new_column("v", "v", "v_v2")
    .with_new_column("v", "v_v2", "v_v3")
    .without_columns({"x": {P0: 5, P1: 7}})
    .with_shown(["n"], {P0: (8, 80), P1: (3, None)})
    .with_gone(["g"], {P0: (9, 90)})
)


def test_all_of_it_is_in_the_option() -> None:
    assert ColumnSources.parsed(KNOWN.text) == KNOWN
    assert KNOWN.renamed == {"a": "c", "b": "c"}
    assert KNOWN.continued == {"v": ("v", "v_v2", "v_v3")}
    assert KNOWN.since == {"n": PastName(None, {P0: 8, P1: 3}, 80)}
    assert KNOWN.gone == {"g": PastName("g", {P0: 9}, 90)}


@pytest.mark.parametrize("text", [None, "", "no JSON", "[]", '{"renamed": 1}', '{"past": {"x": [{"means": "y"}]}}'])
def test_what_somebody_has_spoilt_says_nothing(text: str | None) -> None:
    assert ColumnSources.parsed(text) == ColumnSources()


def test_a_name_that_comes_back_is_one_of_the_column_or_of_a_new_one() -> None:
    assert KNOWN.with_rename("c", "a").renamed == {"b": "a", "c": "a"}


def test_a_lost_column_comes_again_by_a_younger_record() -> None:
    assert KNOWN.with_shown(["g"], {P0: (8, 99), P1: (7, 90)}) == KNOWN
    again = KNOWN.with_shown(["g"], {P0: (8, 99), P1: (7, 91)})
    assert again.gone == {} and again.since["g"] == PastName(None, {P1: 7}, 91)


def test_records_from_before_a_column_show_no_loss() -> None:
    assert KNOWN.is_before("n", {P0: (7, 99)}) and KNOWN.is_before("n", {P2: (9, 80)})
    assert not KNOWN.is_before("n", {P0: (8, 80)}) and not KNOWN.is_before("n", {P2: (1, 81)})
    assert not KNOWN.is_before("other", {P0: (0, 0)})
    renamed = KNOWN.with_rename("n", "m")
    assert renamed.is_before("m", {P0: (7, 99)})
    assert renamed.without_columns({"m": {P0: 9}}).since == {}


def test_a_former_name_beside_the_name_of_now_means_another_column_from_there_on() -> None:
    reused = KNOWN.with_reused(["a", "c"], {P0: (3, 30), P1: (4, None), P2: (5, 50)})

    assert reused.renamed == {"b": "c"}
    assert reused.past["a"] == (PastName("c", {P1: 4}, 0),)
    known = reused.with_reused(["a", "c"], {P2: (2, None)}).with_rename("c", "d")
    assert known.past["a"] == (PastName("d", {P1: 4, P2: 2}, 0),)
    assert known.with_reused(["a", "b"], {P1: (3, None)}).past["a"] == (PastName("d", {P1: 3, P2: 2}, 0),)


def test_what_names_mean_ends_with_their_column() -> None:
    gone = KNOWN.with_gone(["c"], {P0: (9, 90)})
    assert gone.renamed == {}
    assert gone.past["a"] == gone.past["b"] == (PastName("c", {P0: 9}, 90),)

    later = KNOWN.with_gone(["c"], {P1: (7, 95), P0: (9, 90), P2: (5, 90)})
    assert later.past["a"] == (PastName("c", {P0: 9, P2: 5}, 90),)

    dropped = gone.without_columns({"c": {P0: 10}})
    assert dropped.past["a"] == (PastName(None, {P0: 9}, 90),)
    assert dropped.past["c"] == (PastName(None, {P0: 10}),)
    assert KNOWN.without_columns({"c": {P0: 10}}).past["b"] == (PastName(None, {P0: 10}),)


def test_an_old_record_is_known_by_its_offset_or_else_by_its_time() -> None:
    past = PastName("c", {P0: 5}, 50)
    assert past.covers(P0, 4, 99) and not past.covers(P0, 5, 1)
    assert past.covers(P1, 99, 50) and not past.covers(P1, 1, 51)
    assert not replace(past, until_ms=None).covers(P1, 1, 1)


def test_a_topic_that_was_recreated_has_no_past() -> None:
    known = replace(KNOWN, topics={"shop/t": "one"})
    assert known.in_topics({"shop/t": "one"}).past == known.in_topics({}).past == known.past
    assert known.in_topics({"shop/t": "two"}).past == {}
