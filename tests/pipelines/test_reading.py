"""Topics made anew, as the driver notices them beside a running query, without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_table import CommitKind, TableName
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.topic_record import TopicRecord
from pipelines.config.config import PipelineConfig
from pipelines.reading import CheckpointStanding, source_reader
from pipelines.storage import catalog_of
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.written_tables import WrittenTable
from sinks.commit.positions import Position
from sources.kafka.lost_records import RecordsLost
from sources.kafka.reader import KafkaReader
from sources.positions import Bounds


@pytest.fixture
def reading(tmp_path: Path) -> KafkaReader:
    """A pipeline that has read 50 records of topic a and none of b; both are recorded."""
    config = PipelineConfig.model_validate(
        {
            "version": 1,
            "name": "shop",
            "source": {
                "kafka": {"bootstrap_servers": "b:1", "topics": {"include": ["a", "b"]}},
                "format": "debezium-json",
            },
            "checkpoint": str(tmp_path / "cp"),
            "catalog": {"warehouse": str(tmp_path)},
            "otherwise": "create",
        }
    )
    offsets = ["v1", json.dumps({"batchTimestampMs": 1}), json.dumps({"a": {"0": 50}, "b": {"0": 0}})]
    for directory, text in (("offsets", "\n".join(offsets)), ("commits", "v1\n{}")):
        (tmp_path / "cp" / directory).mkdir(parents=True)
        (tmp_path / "cp" / directory / "0").write_text(text)
    checkpoint = Checkpoint(config)
    TopicRecord(checkpoint).add({"a": "1", "b": "1"})
    reader = source_reader(config, checkpoint, OwnTables(config, catalog_of(config)))
    assert isinstance(reader, KafkaReader)
    return reader


def test_a_topic_made_anew_ends_reading_with_topic_offset_and_way_on(reading: KafkaReader) -> None:
    reading.note_topics({"a": "2", "b": "1"})

    assert isinstance(reading.failure, RecordsLost)
    for part in ("made anew", "offsets from 50 on", "a-0 to offset 50", "on_data_loss to continue"):
        assert part in str(reading.failure)


def test_a_topic_made_anew_before_anything_was_read_is_as_good_as_new(reading: KafkaReader) -> None:
    reading.note_topics({"a": "1", "b": "2"})
    reading.note_topics({"a": "1", "b": "2", "c": "1"})
    assert reading.failure is None


def test_a_topic_that_goes_and_comes_back_anew_is_noticed(reading: KafkaReader) -> None:
    reading.note_topics({"b": "1"})
    assert reading.failure is None
    reading.note_topics({"a": "2", "b": "1"})
    assert "a-0 to offset 50" in str(reading.failure)


def test_a_topic_made_anew_is_read_from_its_begin_unless_tables_took_offsets_of_it_over(
    reading: KafkaReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading._settings = replace(reading._settings, goes_on_after_loss=True)
    ids, held = {"a": "2", "b": "1"}, {("a", 0): Bounds(0, 60, 60), ("b", 0): Bounds(0, 0, 0)}

    monkeypatch.setattr(reading._standing, "taken_over", lambda _: {"a"})
    with pytest.raises(RecordsLost, match=r"cannot go on in a: tables took over .*; move the checkpoint .* away"):
        reading._go_on(ids, held)
    assert reading._standing.closed() == {("a", 0): 50, ("b", 0): 0}

    monkeypatch.setattr(reading._standing, "taken_over", lambda _: set())
    reading._go_on(ids, held)
    assert reading._standing.closed() == {("b", 0): 0}
    assert [str(loss) for loss in reading.losses.newest] == [
        "topic a partition 0: offsets from 50 on are gone (the topic was deleted and made anew)"
    ]


def tables_at(reading: KafkaReader, monkeypatch: pytest.MonkeyPatch, *positions: Position) -> None:
    """Let the pipeline have written a table for each of these positions."""
    tables = [WrittenTable(TableName("lake", f"t{n}"), at, CommitKind.APPEND) for n, at in enumerate(positions)]
    assert isinstance(reading._standing, CheckpointStanding)
    monkeypatch.setattr(reading._standing._own, "written", lambda: tables)


def test_a_new_checkpoint_does_not_take_positions_for_those_of_a_topic_made_anew(
    reading: KafkaReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = {("a", 0): Bounds(0, 60, 60), ("b", 0): Bounds(0, 9, 9)}
    old = Position("u", {("a", 0): 50, ("b", 0): 5}, topics={"a": "1", "b": "1"})
    tables_at(reading, monkeypatch, old)
    recorded = reading._standing.recorded({"a": "2", "b": "1"})
    with pytest.raises(
        RecordsLost, match=r"offsets from 50 on are gone .the topic was deleted and made anew.; set on_d"
    ):
        reading._resume_positions(recorded, held)

    reading._settings = replace(reading._settings, goes_on_after_loss=True)
    assert reading._resume_positions(recorded, held) == {("a", 0): 0, ("b", 0): 5}
    assert [loss.begin for loss in reading.losses.newest] == [50]


def test_tables_that_have_not_seen_the_new_topic_yet_get_it_from_its_begin(
    reading: KafkaReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = Position("u", {("a", 0): 7}, {("a", 0): 2}, topics={"a": "2"})
    old = Position("u", {("a", 0): 50}, {("a", 0): 20}, topics={"a": "1"})
    tables_at(reading, monkeypatch, new, old)

    recorded = reading._standing.recorded({"a": "2"})

    assert reading._resume_positions(recorded, {("a", 0): Bounds(0, 60, 60)}) == {("a", 0): 0}
    assert reading._standing.taken_over({"a": "2"}) == {"a"}
    tables_at(reading, monkeypatch, old)
    assert not reading._standing.taken_over({"a": "2"})
