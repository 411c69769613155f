"""What a table remembers of its source."""

from __future__ import annotations

import pytest

from sources.column_sources import ColumnSources, place_key

KNOWN = (
    ColumnSources()
    .with_rename("a", "b")
    .with_rename("b", "c")
    .with_new_column("v", "v", "v_v2")
    .with_new_column("v", "v_v2", "v_v3")
    .without_columns({"x": {place_key("shop/t", 0): 5, place_key("shop/t", 1): 7}}, {"shop/t": "one"})
    .with_gone(["g"])
)


def test_all_of_it_is_in_the_option() -> None:
    assert ColumnSources.parsed(KNOWN.text) == KNOWN
    assert KNOWN.renamed == {"a": "c", "b": "c"}
    assert KNOWN.continued == {"v": ("v", "v_v2", "v_v3")}
    assert KNOWN.gone == ("g",)


@pytest.mark.parametrize("text", [None, "", "no JSON", "[]", '{"renamed": 1}', '{"dropped": {"x": {"t/0": "y"}}}'])
def test_what_somebody_has_spoilt_says_nothing(text: str | None) -> None:
    assert ColumnSources.parsed(text) == ColumnSources()


def test_a_name_that_comes_back_is_one_of_the_column_or_of_a_new_one() -> None:
    assert KNOWN.with_rename("c", "a").renamed == {"b": "a", "c": "a"}
    assert KNOWN.with_own_columns({"a", "g"}).renamed == {"b": "c"}
    assert KNOWN.with_own_columns({"a", "g"}).gone == ()


def test_offsets_of_a_drop_are_those_of_its_topic() -> None:
    assert KNOWN.ends("shop/t", {"shop/t": "one"}) == KNOWN.ends("shop/t", {}) == {"x": {0: 5, 1: 7}}
    assert KNOWN.ends("other", {}) == {}
    assert KNOWN.ends("shop/t", {"shop/t": "two"}) == {}

    later = KNOWN.without_columns({"y": {place_key("shop/t", 0): 2}}, {"shop/t": "two"})
    assert later.ends("shop/t", {"shop/t": "two"}) == {"y": {0: 2}}
