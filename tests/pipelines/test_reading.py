"""Topics recreated, as the driver notices them beside a running query, without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_table import TableName
from pipelines.checkpoint.book import Book, Cause, Entry, Pause
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.reached import Reached
from pipelines.checkpoint.replay_state import Kind, Point, Replays, ReplayState
from pipelines.config.config import PipelineConfig
from pipelines.reading import CheckpointStanding, source_reader
from pipelines.storage import catalog_of
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.written_tables import WrittenTable
from sinks.commit.positions import Position
from sources.kafka.lost_records import RecordsLost, TopicsChanged
from sources.kafka.reader import KafkaReader
from sources.kafka.settings import EARLIEST
from sources.kafka.start_offsets import lost_on_resume, starting_options
from sources.positions import Bounds


def load(root: Path) -> PipelineConfig:
    return PipelineConfig.model_validate(
        {
            "version": 1,
            "name": "shop",
            "source": {
                "kafka": {"bootstrap_servers": "b:1", "topics": {"include": ["a", "b"]}},
                "format": "debezium-json",
            },
            "checkpoint": str(root / "cp"),
            "catalog": {"warehouse": str(root)},
            "otherwise": "create",
        }
    )


@pytest.fixture
def reading(tmp_path: Path) -> KafkaReader:
    """A pipeline that has read 50 records of topic a and none of b; both are recorded."""
    config = load(tmp_path)
    offsets = ["v1", json.dumps({"batchTimestampMs": 1}), json.dumps({"a": {"0": 50}, "b": {"0": 0}})]
    for directory, text in (("offsets", "\n".join(offsets)), ("commits", "v1\n{}")):
        (tmp_path / "cp" / directory).mkdir(parents=True)
        (tmp_path / "cp" / directory / "0").write_text(text)
    checkpoint = Checkpoint(config)
    Book(checkpoint).note_topics({"a": "1", "b": "1"})
    reader = source_reader(config, checkpoint, OwnTables(config, catalog_of(config)))
    assert isinstance(reader, KafkaReader)
    return reader


def test_a_topic_made_anew_ends_reading_with_topic_offset_and_way_on(reading: KafkaReader) -> None:
    reading.note_topics({"a": "2", "b": "1"})

    assert isinstance(reading.failure, RecordsLost)
    for part in ("recreated", "offsets from 50 on", "a-0 to offset 50", "on_data_loss: continue"):
        assert part in str(reading.failure)


def test_a_topic_made_anew_before_anything_was_read_is_as_good_as_new(reading: KafkaReader) -> None:
    reading.note_topics({"a": "1", "b": "2"})
    reading.note_topics({"a": "1", "b": "2", "c": "1"})
    assert reading.failure is None


def test_a_topic_that_spark_has_let_go_and_that_is_made_anew_starts_the_query_again(
    reading: KafkaReader, tmp_path: Path
) -> None:
    """A batch ran without it, so that the stream stands in it nowhere: what tables remember of it counts no more."""
    checkpoint = tmp_path / "cp"
    for kind, text in (("offsets", 'v1\n{"batchTimestampMs":1}\n{"b":{"0":0}}'), ("commits", "v1\n{}")):
        (checkpoint / kind / "1").write_text(text)
    state = Checkpoint(load(tmp_path))
    begin = '{"a":{"0":30},"b":{"0":0}}'
    Book(state).put({"lake.t": Entry(pause=Pause("lake.t", Cause.ASKED, "by hand", 1, 0, begin, topics=("a",)))})
    replays = Replays(state)
    replays.put(replace(ReplayState("r", "lake.t", Point(Kind.EARLIEST), None, ("a",)), reached=Reached()))

    reading.note_topics({"a": "2", "b": "1"})
    assert isinstance(reading.failure, TopicsChanged)
    assert Book(state).recreated_topics({"a": "2"}) == ["a"]

    own = OwnTables(load(tmp_path), catalog_of(load(tmp_path)))
    CheckpointStanding(load(tmp_path), state, own, Book(state)).begin_anew(["a"])
    assert Book(state).pauses["lake.t"].begin == '{"b":{"0":0}}'
    assert replays.get("r").void == "topic a was recreated during the replay"


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
    with pytest.raises(RecordsLost, match=r"cannot continue in a. Tables took over .* Move the checkpoint .* away"):
        reading._go_on(ids, held)
    assert reading._standing.closed() == {("a", 0): 50, ("b", 0): 0}

    monkeypatch.setattr(reading._standing, "taken_over", lambda _: set())
    reading._go_on(ids, held)
    assert reading._standing.closed() == {("b", 0): 0}
    assert [str(loss) for loss in reading.losses.newest] == [
        "topic a partition 0: offsets from 50 on are gone (the topic was deleted and recreated)"
    ]


@pytest.mark.parametrize("closed", [None, 0])
def test_a_batch_that_is_planned_does_not_run_over_a_topic_made_anew(
    reading: KafkaReader, tmp_path: Path, closed: int | None
) -> None:
    """Tables may have its rows, and would take records of the new topic for these."""
    checkpoint = tmp_path / "cp"
    (checkpoint / "sources/0").mkdir(parents=True)
    (checkpoint / "sources/0/0").write_text('\0v1\n{"a":{"0":20},"b":{"0":0}}')
    if closed is None:
        (checkpoint / "commits/0").unlink()
    else:
        (checkpoint / "offsets/0").write_text('v1\n{"batchTimestampMs":1}\n{"b":{"0":0}}')
        (checkpoint / "offsets/1").write_text('v1\n{"batchTimestampMs":1}\n{"a":{"0":50},"b":{"0":0}}')
    ids, held = {"a": "2", "b": "1"}, {("a", 0): Bounds(0, 60, 60), ("b", 0): Bounds(0, 0, 0)}
    with pytest.raises(RecordsLost, match=r"topic a partition 0: offsets from .* on are gone"):
        reading._go_on(ids, held)

    reading._settings = replace(reading._settings, goes_on_after_loss=True)
    reading._go_on(ids, held)

    assert reading._standing.closed() == reading._standing.planned() == {("b", 0): 0}
    begin = b'\0v1\n{"a":{"0":20},"b":{"0":0}}' if closed == 0 else b'\0v1\n{"b":{"0":0}}'
    assert (checkpoint / "sources/0/0").read_bytes() == begin
    assert [loss.begin for loss in reading.losses.newest] == [20 if closed is None else 0]


def tables_at(reading: KafkaReader, monkeypatch: pytest.MonkeyPatch, *positions: Position) -> None:
    """Let the pipeline have written a table for each of these positions."""
    tables = [WrittenTable(TableName("lake", f"t{n}"), at, False) for n, at in enumerate(positions)]
    assert isinstance(reading._standing, CheckpointStanding)
    monkeypatch.setattr(reading._standing._own, "written", lambda: tables)


@pytest.mark.parametrize(("topic_id", "begin"), [("1", 50), ("0", 0)], ids=["of the topic", "of an earlier topic"])
def test_a_topic_that_spark_let_go_loses_the_offsets_after_its_last_batch(
    reading: KafkaReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topic_id: str, begin: int
) -> None:
    """An empty batch closed while the topic did not exist, and the next one has planned the new topic."""
    checkpoint = tmp_path / "cp"
    for batch, ends in ((1, '{"b":{"0":0}}'), (2, '{"a":{"0":30},"b":{"0":0}}')):
        (checkpoint / f"offsets/{batch}").write_text(f'v1\n{{"batchTimestampMs":1}}\n{ends}')
    (checkpoint / "commits/1").write_text("v1\n{}")
    tables_at(reading, monkeypatch, Position("u", {("a", 0): 50}, topics={"a": topic_id}))
    reading._settings = replace(reading._settings, goes_on_after_loss=True)
    reading._go_on({"a": "2", "b": "1"}, {("a", 0): Bounds(0, 60, 60), ("b", 0): Bounds(0, 0, 0)})
    assert [loss.begin for loss in reading.losses.newest] == [begin]


def test_a_new_checkpoint_does_not_take_positions_for_those_of_a_topic_made_anew(
    reading: KafkaReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = {("a", 0): Bounds(0, 60, 60), ("b", 0): Bounds(0, 9, 9)}
    old = Position("u", {("a", 0): 50, ("b", 0): 5}, topics={"a": "1", "b": "1"})
    tables_at(reading, monkeypatch, old)
    recorded = reading._standing.recorded({"a": "2", "b": "1"})
    with pytest.raises(
        RecordsLost, match=r"offsets from 50 on are gone .the topic was deleted and recreated.; set `on_d"
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
    assert not reading._standing.taken_over({"a": "2"})
    tables_at(reading, monkeypatch, Position("u", {("a", 0): 50}))
    assert reading._standing.taken_over({"a": "2"}) == {"a"}, "nothing says of which topic the offset is"


def test_a_partition_that_one_of_its_tables_has_not_read_is_read_from_its_begin(
    reading: KafkaReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was added while the table was behind; what others have read of it says nothing of that one."""
    behind = Position("u", {("a", 0): 40}, topics={"a": "1"})
    tables_at(reading, monkeypatch, Position("u", {("a", 0): 50, ("a", 1): 7}, topics={"a": "1"}), behind)
    held = {("a", 0): Bounds(0, 60, 60), ("a", 1): Bounds(5, 60, 60)}

    resumed = reading._resume_positions(reading._standing.recorded({"a": "1"}), held)

    assert resumed == {("a", 0): 40, ("a", 1): EARLIEST}
    assert lost_on_resume(resumed, held) == []
    options = starting_options(reading._settings, resumed, held)
    assert json.loads(options["startingOffsets"]) == {"a": {"0": 40, "1": EARLIEST}}
