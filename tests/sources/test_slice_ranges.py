"""Ends of ranges that are read again: the earlier of two positions, in each part of the source."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pytest

from paimon_table.errors import ConfigError
from sources.dumps.dump_file import FilePosition
from sources.dumps.dump_source import offset_text, positions_of
from sources.dumps.settings import DumpSettings
from sources.dumps.slices import DumpSlices
from sources.kafka.offset_ranges import offsets_of
from sources.kafka.settings import KafkaSettings
from sources.kafka.slices import KafkaSlices
from sources.positions import Bounds
from sources.topics import TopicSelection


class Admin:
    """What Kafka would say of the first records that are not older than a time."""

    def topic_ids(self) -> dict[str, str]:
        return {"a": "1", "b": "2", "other": "3"}

    def offsets_at(self, topics: list[str], time_ms: int) -> dict[tuple[str, int], int]:
        return {(topic, 0): time_ms // 1000 for topic in topics}

    def bounds(self, topics: set[str]) -> dict[tuple[str, int], Bounds]:
        return {(topic, 0): Bounds(3, 9, 9) for topic in topics}


def kafka() -> KafkaSlices:
    admin: Any = Admin()
    return KafkaSlices(KafkaSettings("x:1", TopicSelection(("a", "b"))), lambda: nullcontext(admin), lambda _: None)


def test_the_earlier_end_of_each_partition_counts_and_what_is_not_named_ends_with_the_stream() -> None:
    named, stream = {"a": {"0": 5, "1": 50}, "gone": {"0": 1}}, {"a": {"0": 9, "1": 9}, "b": {"0": 7}}
    found = kafka().earlier(json.dumps(named), json.dumps(stream))
    assert offsets_of(found) == {("a", 0): 5, ("a", 1): 9, ("b", 0): 7}


@pytest.mark.parametrize(("topics", "read"), [((), {"a", "b"}), (("b",), {"b"})])
def test_a_time_is_looked_up_in_the_topics_of_the_table_or_in_all_that_are_read(
    topics: tuple[str, ...], read: set[str]
) -> None:
    assert offsets_of(kafka().position_at(5_000, topics)) == {(topic, 0): 5 for topic in read}


@pytest.mark.parametrize(
    ("begin", "limit", "topics", "words"),
    [
        (None, {"a": 9}, ("a",), "topic a partition 0: offsets 0 to 2 are gone (retention, or deleted records)"),
        ({"a": 3}, {"a": 9}, ("a",), None),
        (
            {"a": 3},
            {"a": 9, "b": 9},
            (),
            "topic b partition 0: offsets 0 to 2 are gone (retention, or deleted records)",
        ),
        (None, {"a": 0}, ("a",), None),
        ({"a": 3}, {"a": 9}, ("a", "old"), "topic old is no longer read"),
        (None, {"gone": 4}, ("gone",), "topic gone partition 0: offsets from 0 on are gone (the topic was deleted)"),
    ],
    ids=["begin", "whole", "new partition", "empty", "unread", "deleted"],
)
def test_what_a_topic_no_longer_has_is_told(
    begin: dict[str, int] | None, limit: dict[str, int], topics: tuple[str, ...], words: str | None
) -> None:
    texts = [None if at is None else json.dumps({t: {"0": n} for t, n in at.items()}) for at in (begin, limit)]
    assert kafka().missing(texts[0], texts[1] or "", topics) == words


def test_dumps_have_no_times_and_end_by_files() -> None:
    slices = DumpSlices(DumpSettings("/dumps", TopicSelection(), 10))
    with pytest.raises(ConfigError, match="not ordered by time"):
        slices.position_at(0, ())
    a, b = FilePosition(10, 1), FilePosition(20, 2)
    found = slices.earlier(offset_text({"x": a, "y": b}), offset_text({"x": b, "y": a, "z": b}))
    assert positions_of(found) == {"x": a, "y": a}
