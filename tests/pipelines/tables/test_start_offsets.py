"""Where reading starts, and what a user is told when Kafka no longer holds what follows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paimon_table.errors import ConfigError, SinkUnavailable
from pipelines.config.config import PipelineConfig
from pipelines.config.source_config import KafkaSource
from pipelines.kafka.admin import Bounds, Place
from pipelines.tables.start_offsets import check_checkpoint, goes_on, starting_options

HELD = {("a", 0): Bounds(0, 5, 5), ("a", 1): Bounds(0, 0, 0)}


def source(start: Any = "earliest") -> KafkaSource:
    return KafkaSource.model_validate({"bootstrap_servers": "unused:1", "topics": ["a", "b"], "start": start})


def offsets(options: dict[str, str]) -> Any:
    return json.loads(options["startingOffsets"])


def test_words_and_times_are_left_to_spark() -> None:
    assert starting_options(source("latest"), {}, HELD) == {"startingOffsets": "latest"}
    options = starting_options(source({"timestamp": "2024-01-01T00:00:00Z"}), {}, HELD)
    assert options["startingTimestamp"] == "1704067200000"


def test_reading_resumes_at_the_positions_of_the_tables() -> None:
    assert offsets(starting_options(source(), {("a", 0): 3}, HELD)) == {"a": {"0": 3, "1": -2}}


def test_an_open_transaction_holds_the_start_back() -> None:
    held = {("a", 0): Bounds(0, 4, 9)}
    assert offsets(starting_options(source(), {("a", 0): 7}, held)) == {"a": {"0": 4}}


@pytest.mark.parametrize(
    ("position", "held", "told"),
    [
        (6, Bounds(0, 5, 5), "topic a partition 0 went back from offset 6 to 5: the topic was made anew"),
        (6, Bounds(9, 12, 12), "topic a partition 0 begins at offset 9, read up to 6: 3 offsets are gone"),
    ],
)
def test_positions_that_kafka_no_longer_holds_are_named(position: int, held: Bounds, told: str) -> None:
    with pytest.raises(ConfigError, match=f"{told}.*on_lost_checkpoint to restart"):
        starting_options(source(), {("a", 0): position}, {("a", 0): held})


def test_partitions_and_offsets_of_start_that_are_not_there_are_refused() -> None:
    assert offsets(starting_options(source({"offsets": {"a": {0: 5}}}), {}, HELD)) == {"a": {"0": 5, "1": -2}}
    with pytest.raises(ConfigError, match=r"topic a partition 0 holds offsets 0 to 5, not 6"):
        starting_options(source({"offsets": {"a": {0: 6}}}), {}, HELD)
    with pytest.raises(ConfigError, match=r"topic a partition 7 is not among those that are read"):
        starting_options(source({"offsets": {"a": {7: 0}}}), {}, HELD)


def _config(directory: Path) -> PipelineConfig:
    return PipelineConfig.model_validate(
        {
            "version": 1,
            "name": "shop",
            "source": {"kafka": source(), "format": "debezium-json"},
            "checkpoint": str(directory / "cp"),
            "catalog": {"warehouse": str(directory)},
            "otherwise": "create",
        }
    )


@pytest.mark.parametrize(
    ("closed", "held", "told"),
    [
        ({("a", 0): 50}, {("a", 0): Bounds(120, 130, 130)}, "topic a partition 0 begins at offset 120, read up to 50"),
        ({("a", 0): 50}, {("a", 0): Bounds(0, 10, 10)}, "went back from offset 50 to 10: the topic was made anew"),
        ({("a", 0): 50}, {}, "topic a partition 0 is gone, read up to offset 50: the topic was deleted"),
    ],
)
def test_what_a_checkpoint_goes_on_from_and_kafka_does_not_hold_is_told_with_the_way_on(
    tmp_path: Path, closed: dict[Place, int], held: dict[Place, Bounds], told: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        check_checkpoint(_config(tmp_path), source(), {**closed, ("b", 0): 7}, {**held, ("b", 0): Bounds(0, 9, 9)})
    assert told in str(refusal.value) and f"{tmp_path}/cp" in str(refusal.value)
    assert 'source.kafka.start to {offsets: {"b": {"0": 7}}}' in str(refusal.value)


def test_topics_that_a_checkpoint_has_read_and_the_file_no_longer_selects_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no longer selects: c; select them again, or remove the checkpoint"):
        check_checkpoint(_config(tmp_path), source(), {("c", 0): 1, ("a", 0): 1}, HELD)


def test_a_checkpoint_that_kafka_can_follow_is_taken(tmp_path: Path) -> None:
    check_checkpoint(_config(tmp_path), source(), {("a", 0): 5}, HELD)
    with pytest.raises(SinkUnavailable, match="transaction that is still open"):
        check_checkpoint(_config(tmp_path), source(), {("a", 0): 5}, {("a", 0): Bounds(0, 4, 9)})


def test_a_start_at_or_beyond_what_a_table_holds_goes_on() -> None:
    def source(start: object) -> KafkaSource:
        return KafkaSource.model_validate({"bootstrap_servers": "localhost:1", "topics": ["a", "b"], "start": start})

    held = {("a", 0): 10, ("a", 1): 7}
    assert goes_on(source({"offsets": {"a": {0: 10, 1: 8}, "b": {0: -2}}}), held)
    assert goes_on(source({"offsets": {"a": {0: 10, 1: -1}}}), held)
    assert not goes_on(source({"offsets": {"a": {0: 9, 1: 8}}}), held)
    assert not goes_on(source({"offsets": {"a": {0: 10}}}), held), "partitions without a word start at the earliest"
    assert not goes_on(source("earliest"), held)
