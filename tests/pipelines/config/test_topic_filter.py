"""Which topics a source reads: Spark finds a pattern anywhere in a name, so ours must say the whole of it."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from pipelines.config.source_config import KafkaSource
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


@pytest.mark.parametrize(
    ("topics", "told"),
    [
        (["a, b"], "'a, b' cannot be the name of a topic"),
        (["a/b"], "cannot be the name of a topic"),
        ([".."], "cannot be the name of a topic"),
        ({"include": ["(?P<n>a)"]}, "cannot have .*named group"),
        ({"include": [r"(a)\1"]}, "cannot have a reference to a group"),
        ({"include": ["a"], "exclude": ["(?x) a # b"]}, "cannot have the flags"),
        ({"include": ["(a)?(?(1)b|c)"]}, "cannot have .*condition"),
    ],
)
def test_names_and_patterns_that_kafka_and_java_read_otherwise_are_refused(topics: object, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        KafkaSource.model_validate({"bootstrap_servers": "b:1", "topics": topics})


@pytest.mark.parametrize("pattern", [r"shop\.public\..*", r"a\\\\1", "(?i:a)b", "(?:a|b)", r"[^\d]x", r"(?!x).*"])
def test_patterns_that_both_read_alike_are_taken(pattern: str) -> None:
    source = KafkaSource.model_validate({"bootstrap_servers": "b:1", "topics": {"include": [pattern]}})
    assert source.topics.include == (pattern,)
