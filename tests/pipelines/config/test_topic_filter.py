"""Names and patterns of topics that a pipeline file may have: Python, Java and Kafka must mean the same by them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from pipelines.config.source_config import KafkaSource


@pytest.mark.parametrize(
    ("topics", "told"),
    [
        (["a, b"], "'a, b' cannot be the name of a topic"),
        (["a/b"], "cannot be the name of a topic"),
        ([".."], "cannot be the name of a topic"),
        ({"include": ["(?P<n>a)"]}, "cannot have .*named group"),
        ({"include": [r"(a)\1"]}, "cannot have references to groups"),
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
