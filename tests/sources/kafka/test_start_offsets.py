"""Where reading starts, and what a user is told when Kafka no longer holds what follows."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from paimon_table.errors import ConfigError, SinkUnavailable
from sources.kafka.lost_records import RecordsLost, lost_records
from sources.kafka.settings import KafkaSettings, Start
from sources.kafka.start_offsets import (
    check_readable,
    check_selected,
    no_topic_words,
    refusal_of,
    start_behind_words,
    starting_options,
)
from sources.positions import Bounds, Place
from sources.topics import TopicSelection

HELD = {("a", 0): Bounds(0, 5, 5), ("a", 1): Bounds(0, 0, 0)}


def source(start: Start = "earliest") -> KafkaSettings:
    return KafkaSettings("unused:1", TopicSelection(names=("a", "b")), start=start)


def offsets(options: dict[str, str]) -> Any:
    return json.loads(options["startingOffsets"])


def test_words_and_times_are_left_to_spark() -> None:
    assert starting_options(source("latest"), {}, HELD) == {"startingOffsets": "latest"}
    options = starting_options(source(datetime(2024, 1, 1, tzinfo=UTC)), {}, HELD)
    assert options["startingTimestamp"] == "1704067200000"


def test_reading_resumes_at_the_positions_of_the_tables() -> None:
    assert offsets(starting_options(source(), {("a", 0): 3}, HELD)) == {"a": {"0": 3, "1": -2}}


def test_tables_resume_behind_what_was_deleted_if_losses_are_passed_over() -> None:
    held = {("a", 0): Bounds(9, 12, 12), ("a", 1): Bounds(0, 5, 5)}
    going_on = replace(source(), goes_on_after_loss=True)
    assert offsets(starting_options(going_on, {("a", 0): 6, ("a", 1): 3}, held)) == {"a": {"0": 9, "1": 3}}
    with pytest.raises(RecordsLost, match="on_lost_checkpoint to restart"):
        starting_options(going_on, {("a", 1): 6}, held)


def test_an_open_transaction_holds_the_start_back() -> None:
    held = {("a", 0): Bounds(0, 4, 9)}
    assert offsets(starting_options(source(), {("a", 0): 7}, held)) == {"a": {"0": 4}}


@pytest.mark.parametrize(
    ("position", "held", "told"),
    [
        (6, Bounds(0, 5, 5), r"topic a partition 0: offsets from 6 on are gone \(the topic was recreated\)"),
        (6, Bounds(9, 12, 12), r"topic a partition 0: offsets 6 to 8 are gone \(retention, or deleted records\)"),
    ],
)
def test_positions_that_kafka_no_longer_holds_are_named(position: int, held: Bounds, told: str) -> None:
    with pytest.raises(RecordsLost, match=f"{told}.*on_lost_checkpoint to restart"):
        starting_options(source(), {("a", 0): position}, {("a", 0): held})


def test_partitions_and_offsets_of_start_that_are_not_there_are_refused() -> None:
    assert offsets(starting_options(source({("a", 0): 5}), {}, HELD)) == {"a": {"0": 5, "1": -2}}
    with pytest.raises(ConfigError, match=r"topic a partition 0 holds offsets 0 to 5, not 6"):
        starting_options(source({("a", 0): 6}), {}, HELD)
    with pytest.raises(ConfigError, match=r"topic a partition 7 is not read by this pipeline"):
        starting_options(source({("a", 7): 0}), {}, HELD)


CHECKPOINT = "/state/shop"


@pytest.mark.parametrize(
    ("closed", "held", "told"),
    [
        ({("a", 0): 50}, {("a", 0): Bounds(120, 130, 130)}, "topic a partition 0: offsets 50 to 119 are gone"),
        ({("a", 0): 50}, {("a", 0): Bounds(0, 10, 10)}, "offsets from 50 on are gone (the topic was recreated)"),
        ({("a", 0): 50}, {}, "topic a partition 0: offsets from 50 on are gone (the topic was deleted)"),
    ],
)
def test_what_a_checkpoint_goes_on_from_and_kafka_does_not_hold_is_told_with_the_way_on(
    closed: dict[Place, int], held: dict[Place, Bounds], told: str
) -> None:
    positions = {**closed, ("b", 0): 7}
    refusal = str(refusal_of(lost_records(positions, {**held, ("b", 0): Bounds(0, 9, 9)}), positions))
    assert told in refusal and "on_data_loss: continue" in refusal
    assert "(read: a-0 to offset 50)" in refusal


def test_topics_that_a_checkpoint_has_read_and_the_file_no_longer_selects_are_named() -> None:
    with pytest.raises(ConfigError, match=r"no longer selects: c. Select them again, or move the checkpoint away"):
        check_selected(CHECKPOINT, source(), {("c", 0): 1, ("a", 0): 1}, {})
    with pytest.raises(
        ConfigError, match=r"has a batch planned that reads topics that .* no longer selects: c. Select"
    ):
        check_selected(CHECKPOINT, source(), {}, {("c", 0): 1, ("a", 0): 1})


def test_a_checkpoint_that_kafka_can_follow_is_taken() -> None:
    check_selected(CHECKPOINT, source(), {("a", 0): 5}, {("a", 0): 6})
    check_readable({("a", 0): 5}, HELD)
    with pytest.raises(SinkUnavailable, match="transaction that is still open"):
        check_readable({("a", 0): 5}, {("a", 0): Bounds(0, 4, 9)})


def test_a_start_at_or_beyond_what_a_table_holds_goes_on() -> None:
    held = {("a", 0): 10, ("a", 1): 7}
    assert source({("a", 0): 10, ("a", 1): 8, ("b", 0): -2}).begins_at_or_beyond(held)
    assert source({("a", 0): 10, ("a", 1): -1}).begins_at_or_beyond(held)
    assert not source({("a", 0): 9, ("a", 1): 8}).begins_at_or_beyond(held)
    assert not source({("a", 0): 10}).begins_at_or_beyond(held), "partitions without a word start at the earliest"
    assert not source("earliest").begins_at_or_beyond(held)


def patterns(*include: str, exclude: tuple[str, ...] = ()) -> KafkaSettings:
    return KafkaSettings("unused:1", TopicSelection(include=include, exclude=exclude))


def test_patterns_without_a_topic_are_told_with_the_nearest_one() -> None:
    known = ["shop.public.orders", "shop.public.items"]
    assert no_topic_words(patterns(r"shop\.public\..*"), known) is None
    assert no_topic_words(patterns(), known) is None
    words = no_topic_words(patterns(r"shop\.publik\.orders"), known) or ""
    assert r"match source.kafka.topics.include ('shop\.publik\.orders')" in words
    assert "did you mean 'shop.public.orders'?" in words
    assert "there is none at all" in (no_topic_words(patterns("a.*"), []) or "")
    assert "source.kafka.topics.exclude" in (no_topic_words(patterns(exclude=(".*",)), known) or "")


@pytest.mark.parametrize(
    ("start", "at", "told"),
    [
        (datetime(2024, 1, 1, tzinfo=UTC), 5, "source.kafka.start (2024-01-01T00:00:00+00:00) is later than the last"),
        (datetime(2024, 1, 1, tzinfo=UTC), 4, None),
        ("latest", 0, "source.kafka.start is latest"),
        ("earliest", 0, None),
    ],
)
def test_a_start_behind_the_last_record_is_told(start: Start, at: int, told: str | None) -> None:
    words = start_behind_words(source(start), HELD, lambda _: {("a", 0): at, ("a", 1): 0})
    assert words is None if told is None else told in str(words)
    assert start_behind_words(source(start), {("a", 1): HELD["a", 1]}, lambda _: {}) == "its topics hold no records"
