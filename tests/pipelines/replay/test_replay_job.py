"""A range of a topic read again into its table: exactly once, whatever is killed, while the stream goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paimon_table.errors import ConfigError
from pipelines.catchup.reading import Step
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.replay_state import Kind, Point, Replays, ReplayState
from pipelines.config.config_file import load_pipeline
from pipelines.prepared import own_tables
from pipelines.replay.in_place import InPlace, ReplayContext
from sinks import faults
from tests.support.quarantined import (
    QUERY,
    envelope,
    forget_the_past,
    read_from_kafka,
    record,
    rows_of,
    run_batch,
    table,
    write_pipeline,
)
from tests.support.replayed_topic import FINAL, HISTORY, TOPIC, Killed, ReplayReading, Topic, delete

SEQUENCE = {"sequence.field": "v", "changelog-producer": "lookup"}


def start(root: Path, options: dict[str, str] | None = None, *, from_kafka: bool = False) -> Topic:
    """A table that the stream has filled from the first ten records, in two batches.

    Of dump files the numbers of slices tell what is there, of Kafka the positions.
    """
    file = write_pipeline(root, SEQUENCE if options is None else options)
    if from_kafka:
        read_from_kafka(file)
    run_batch(root, file, 0, *HISTORY[:5])
    run_batch(root, file, 1, *HISTORY[5:])
    assert rows_of(root) == FINAL
    return Topic(root, [*HISTORY], closed=10)


def lose(root: Path, *keys: int) -> None:
    """Take rows away, as somebody who has dropped them by mistake; with low sequences, so that any record wins."""
    file = root / "shop.yaml"
    run_batch(root, file, 2, *(delete(20 + key, key) for key in keys))


def state(begin: Point | None = None, end: Point | None = None) -> ReplayState:
    return ReplayState("r1", "lake.orders", begin or Point(Kind.EARLIEST), end, (TOPIC,))


def job(topic: Topic, most: int = 3) -> ReplayReading:
    """The job as a new process takes it up."""
    config = load_pipeline(topic.root / "shop.yaml")
    replays = Replays(Checkpoint(config))
    if not replays.all():
        replays.put(state())
    (found,) = replays.all()
    context = ReplayContext(config, own_tables(config), replays, topic, topic, "stream")
    return ReplayReading(InPlace(context, found), topic, most)


def finish(one: ReplayReading) -> ReplayState:
    for _ in range(20):
        if one.step() is Step.DONE:
            return one.state
    raise AssertionError("the replay does not end")


def put(topic: Topic, one: ReplayState) -> None:
    Replays(Checkpoint(load_pipeline(topic.root / "shop.yaml"))).put(one)


@pytest.mark.slow
def test_rows_that_were_lost_come_back_and_the_others_stay(tmp_path: Path) -> None:
    topic = start(tmp_path)
    lose(tmp_path, 2, 4)
    assert rows_of(tmp_path) == {0: 60, 3: 3, 5: 5}

    done = finish(job(topic))

    assert rows_of(tmp_path) == FINAL
    assert (done.record_count, done.failed_count, done.number) == (10, 1, 4)
    assert topic.runs == [(0, 3), (3, 6), (6, 9), (9, 10)]


@pytest.mark.slow
def test_a_topic_that_is_made_anew_ends_the_replays_that_read_it(tmp_path: Path) -> None:
    """Their offsets mean other records in the new one."""
    topic = start(tmp_path)
    one = job(topic)
    one.step()
    replays = Replays(Checkpoint(load_pipeline(tmp_path / "shop.yaml")))
    replays.end_with({"another"})
    assert job(topic).step() is Step.SLICE
    replays.end_with({TOPIC})

    told = f"replay r1 of table lake.orders cannot continue: topic {TOPIC} was recreated during the replay; give"
    with pytest.raises(ConfigError, match=told):
        job(topic).step()


@pytest.mark.slow
def test_the_position_of_the_pipeline_is_untouched_and_the_progress_recorded(tmp_path: Path) -> None:
    topic = start(tmp_path)
    finish(job(topic))
    run_batch(tmp_path, tmp_path / "shop.yaml", 2, record(10, envelope(10, 10, v=10)))

    snapshots = list(table(tmp_path).snapshots.newest_first())
    stream = [s for s in snapshots if s.commit_user == f"tidemark-shop-{QUERY}"]
    assert json.loads((stream[0].properties or {})["tidemark.offsets"]) == {TOPIC: {"0": 11}}
    replayed = [s.properties or {} for s in snapshots if s.commit_user == "replay-r1-shop"]
    assert json.loads(replayed[0]["tidemark.replayed"]) == {TOPIC: {"0": 10}}
    assert all("tidemark.offsets" not in properties for properties in replayed)
    assert rows_of(tmp_path) == {**FINAL, 10: 10}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begin", "first"),
    [
        (Point(Kind.TIMESTAMP, "1700000004000"), 4),
        (Point(Kind.POSITION, "7"), 7),
    ],
    ids=["timestamp", "position"],
)
def test_a_replay_begins_where_it_is_told(tmp_path: Path, begin: Point, first: int) -> None:
    topic = start(tmp_path)
    put(topic, state(begin))
    finish(job(topic, most=100))
    assert topic.runs == [(first, 10)]


@pytest.mark.slow
def test_a_named_end_is_not_passed(tmp_path: Path) -> None:
    topic = start(tmp_path)
    put(topic, state(end=Point(Kind.POSITION, "5")))
    topic.beyond = True
    assert finish(job(topic, most=4)).record_count == 5
    assert topic.runs == [(0, 4), (4, 5)]


@pytest.mark.slow
def test_a_replay_ends_where_it_meets_the_stream_and_not_before(tmp_path: Path) -> None:
    """The stream deletes a row that the replay has just brought back, in a batch that Spark has not closed yet."""
    topic = start(tmp_path)
    one = job(topic, most=9)
    assert one.step() is Step.SLICE
    run_batch(tmp_path, tmp_path / "shop.yaml", 2, delete(10, 3))
    topic.beyond = True
    assert one.step() is Step.SLICE
    assert one.step() is Step.WAITING
    topic.records_.append(delete(10, 3))
    topic.closed, topic.beyond = 11, False

    assert one.step() is Step.DONE

    assert rows_of(tmp_path) == {key: n for key, n in FINAL.items() if key != 3}


@pytest.mark.slow
def test_a_replay_meets_a_stream_that_never_rests(tmp_path: Path) -> None:
    topic = start(tmp_path)
    one = job(topic, most=6)
    steps: list[Step] = []
    while not steps or steps[-1] is not Step.DONE:
        offset = len(topic.records_)
        topic.records_.append(record(offset, envelope(offset, offset, v=offset)))
        run_batch(tmp_path, tmp_path / "shop.yaml", offset, topic.records_[-1])
        topic.closed = offset + 1
        steps.append(one.step())

        assert len(steps) <= 4

    assert rows_of(tmp_path) == {**FINAL, **{offset: offset for offset in range(10, 10 + len(steps))}}


@pytest.mark.slow
def test_a_table_whose_past_has_just_expired_is_replayed_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = start(tmp_path)
    lose(tmp_path, 2, 4)
    forget_the_past(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(faults, "reached", lambda point, _: _kill(point == "slice-planned"))
        with pytest.raises(Killed):
            job(topic).step()

    assert finish(job(topic)).record_count == 10
    assert rows_of(tmp_path) == FINAL


STEPS = ("slice-planned", *(p for p in faults.POINTS if p != "between-compactions"), "slice-done")


@pytest.mark.slow
@pytest.mark.parametrize("from_kafka", [True, False], ids=["by position", "by number"])
@pytest.mark.parametrize("step", STEPS)
def test_a_killed_replay_goes_on_and_commits_no_slice_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, from_kafka: bool
) -> None:
    topic = start(tmp_path, from_kafka=from_kafka)
    lose(tmp_path, 2, 4)
    one = job(topic)
    one.step()
    with monkeypatch.context() as patch:
        patch.setattr(faults, "reached", lambda point, number: _kill(point == step and number == 1))
        with pytest.raises(Killed):
            one.step()

    # Where positions tell, a slice that runs again may be another one.
    done = finish(job(topic, most=4 if from_kafka else 3))

    assert rows_of(tmp_path) == FINAL
    assert (done.record_count, done.number) == (10, 3 if from_kafka else 4)
    replayed = [s for s in table(tmp_path).snapshots.newest_first() if "tidemark.replay" in (s.properties or {})]
    commits = [(s.commit_identifier, s.commit_kind) for s in replayed]
    assert from_kafka or len(commits) == len(set(commits))
    assert sum(s.delta_record_count or 0 for s in replayed if s.commit_kind == "APPEND") == 9  # each row once
    assert {number for number, _ in commits} <= {0, 1, 2, 3}


def changed_key(offset: int, key: int, header: tuple[str, int], value: bytes) -> dict[str, Any]:
    """Half of a change of the primary key, with the header that names the other key."""
    name, other = header
    headers = [{"key": f"__debezium.{name}", "value": json.dumps({"id": other}).encode()}]
    return {**record(offset, value, key=key), "headers": headers}


def test_a_replay_killed_between_the_halves_of_a_changed_key_keeps_its_values(tmp_path: Path) -> None:
    """The row came and went within one slice: no snapshot has it, and who reads the next slice is another process."""
    renamed = [
        record(0, envelope(1, 5, body="long")),
        changed_key(1, 1, ("newkey", 7), delete(1, 1)["value"]),
        changed_key(2, 7, ("oldkey", 1), envelope(7, 6, body="__debezium_unavailable_value")),
    ]
    run_batch(tmp_path, write_pipeline(tmp_path), 0, *renamed)
    lose(tmp_path, 7)
    topic = Topic(tmp_path, renamed, closed=3)
    assert job(topic, most=2).step() is Step.SLICE

    finish(job(topic, most=2))

    assert topic.runs == [(0, 2), (2, 3)]
    assert table(tmp_path).to_arrow(["id", "n", "body"]).to_pylist() == [{"id": 7, "n": 6, "body": "long"}]


def _kill(is_due: bool) -> None:
    if is_due:
        raise Killed


@pytest.mark.slow
def test_a_first_row_stays_the_first_and_lost_ones_come_back(tmp_path: Path) -> None:
    options = {"merge-engine": "first-row", "ignore-delete": "true", "changelog-producer": "lookup"}
    file = write_pipeline(tmp_path, options)
    run_batch(tmp_path, file, 0, *HISTORY[2:])
    assert rows_of(tmp_path) == {2: 2, 3: 3, 4: 4, 5: 5, 0: 60}
    topic = Topic(tmp_path, [*HISTORY], closed=10)

    finish(job(topic))

    assert rows_of(tmp_path) == {2: 2, 3: 3, 4: 4, 5: 5, 0: 60, 1: 1}


@pytest.mark.slow
def test_other_tables_of_the_topics_are_left_alone(tmp_path: Path) -> None:
    topic = start(tmp_path)
    foreign = json.loads(envelope(1, 1, v=1))
    foreign["source"]["table"] = "items"
    topic.records_[0] = record(0, json.dumps(foreign).encode())

    finish(job(topic))

    assert not (tmp_path / "warehouse" / "lake.db" / "items").exists()


@pytest.mark.slow
def test_a_batch_that_spark_closes_as_the_replay_ends_is_read_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = start(tmp_path)
    one = job(topic, most=9)
    assert one.step() is Step.SLICE
    topic.records_.append(record(10, envelope(3, 33, v=10), key=3))

    def closes_it(_: str) -> bool:
        topic.closed = 11
        return False

    monkeypatch.setattr(topic, "is_beyond", closes_it)
    assert one.step() is Step.SLICE
    assert finish(one).record_count == 11


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        (Point(Kind.TIMESTAMP, "1700000010000", "a later time"), None),
        (Point(Kind.POSITION, "6", "6"), Point(Kind.POSITION, "6", "6")),
    ],
    ids=["from behind all records", "to before from"],
)
def test_a_range_without_records_is_refused_before_it_is_begun(tmp_path: Path, begin: Point, end: Point | None) -> None:
    topic = start(tmp_path)
    topic.records_.append(record(10, envelope(10, 10, v=10)))  # which the stream has yet to read
    replays = Replays(Checkpoint(load_pipeline(tmp_path / "shop.yaml")))
    replays.put(state(begin, end))

    with pytest.raises(ConfigError, match=r"the range from .* has no records, .* up to 10; give another --from"):
        job(topic).step()
    assert not replays.get("r1").is_begun
