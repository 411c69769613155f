"""Which topics a source reads: Spark finds a pattern anywhere in a name, so ours must say the whole of it."""

from __future__ import annotations

import re

import pytest

from sources.topics import TopicSelection

FILTERS = (
    TopicSelection(include=(r"c\..*",)),
    TopicSelection(include=(r"shop\.public\.orders",)),
    TopicSelection(include=(r"a\.x", r"b\.x|b\.y")),
    TopicSelection(include=(r".*\.public\..*",), exclude=(r"pat\.public\.secret", r"c\..*", "e.*")),
    TopicSelection(exclude=("shop",)),
)
TOPICS = (
    *("c.t", "public.t", "c.public.secret", "pat.public.keep", "pat.public.secret", "pat.public.secret2"),
    *("event.public.a", "shop.public.orders", "shop.public.orders_archive", "preshop.public.orders", "shop", "shop2"),
    *("myshop", "a.x", "a.x2", "za.x", "b.x", "b.y", "b.yz", "ab.y"),
)


@pytest.mark.parametrize("topics", FILTERS, ids=lambda topics: topics.subscribe_pattern())
def test_a_pattern_found_anywhere_in_a_name_selects_what_matches_the_whole_name(topics: TopicSelection) -> None:
    found = {name for name in TOPICS if re.search(topics.subscribe_pattern(), name)}
    assert found == {name for name in TOPICS if topics.selects(name)}
    assert found


def test_names_are_exact_and_nothing_said_is_everything() -> None:
    assert TopicSelection(names=("a.b",)).selects("a.b")
    assert not TopicSelection(names=("a.b",)).selects("axb")
    assert TopicSelection().selects("anything") and TopicSelection().is_everything
