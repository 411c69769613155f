"""Rows of a rebuilt table that are counted beside the stream before its switch."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from paimon_table import CommitKind
from paimon_table.errors import ConfigError
from paimon_table.history.tags import TagStore
from paimon_table.scan.scan import TableScan
from pipelines.catchup.reading import Step
from pipelines.config.config_file import load_pipeline
from pipelines.replay import replaying
from pipelines.replay.rebuild_requests import give_up
from pipelines.replay.rebuild_rules import pin_of
from pipelines.replay.replay_progress import Progress, shown_progress
from sinks import faults
from tests.support.quarantined import envelope, forget_the_past, record, rows_of, run_batch, table
from tests.support.rebuilt_tables import (
    FILE,
    KINDS,
    POINTS,
    TAG,
    branches,
    count,
    damage,
    data_files,
    finish,
    finish_counting,
    insert,
    job,
    job_of,
    kill_if,
    old_rows,
    replays,
    start,
    tags,
)
from tests.support.replayed_topic import FINAL, Killed, delete


def once_more(root: Path) -> None:
    """The stream goes on behind what is counted."""
    run_batch(root, root / FILE, 3, record(10, envelope(9, 99, v=1), key=9))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_large_table_are_counted_between_the_turns(tmp_path: Path, kind: str) -> None:
    topic = start(tmp_path, KINDS[kind])
    right = rows_of(tmp_path)
    wrong, pinned = damage(tmp_path), table(tmp_path).snapshots.latest_id()
    assert pinned is not None
    between: list[int] = []

    def meanwhile() -> None:
        once_more(tmp_path)
        topic.records_.append(record(10, envelope(9, 99, v=1), key=9))
        topic.closed = 11
        between.append(table(tmp_path).snapshots.latest_id() or 0)

    done = finish_counting(topic, meanwhile, allows_missing=True)

    assert done.rebuild is not None and done.rebuild.switch is not None
    switch = done.rebuild.switch
    assert (switch.old_rows, switch.new_rows, switch.counted_at) == (len(wrong), len(right), pinned)
    assert len(between) == 1
    assert rows_of(tmp_path) == {**right, 9: 99}
    assert old_rows(tmp_path) == {**wrong, 9: 99}
    assert (tags(tmp_path), branches(tmp_path)) == ([TAG], [])


@pytest.mark.slow
def test_a_turn_reads_no_rows_of_a_large_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = start(tmp_path)
    read = TableScan.read
    one = job(topic, counted_in_turn=-1)
    with monkeypatch.context() as patch:
        patch.setattr(TableScan, "read", lambda *_: pytest.fail("rows are read within the turn"))
        while (step := one.step()) is Step.SLICE:
            pass
        assert step is Step.COUNTING
        patch.setattr(TableScan, "read", read)
        count(topic, one.state)
        patch.setattr(TableScan, "read", lambda *_: pytest.fail("rows are read within the turn"))
        finish(job_of(topic, replays(topic).get("r1"), counted_in_turn=-1))
    assert rows_of(tmp_path) == FINAL


@pytest.mark.slow
def test_the_command_counts_when_a_step_asks_for_it(tmp_path: Path) -> None:
    topic = start(tmp_path)
    job(topic, most=100, counted_in_turn=-1)
    steps: list[Step] = []

    def do(id_: str) -> Progress:
        one = job_of(topic, replays(topic).get(id_), 100, counted_in_turn=-1)
        steps.append(one.step())
        return Progress(steps[-1], one.state.record_count, one.state.failed_count, one.records_left)

    with shown_progress("lake.orders") as shown:
        replaying.driven(
            do, "r1", shown, partial(replaying.count, load_pipeline(tmp_path / FILE), replays(topic), "r1")
        )

    assert steps == [Step.COUNTING, Step.DONE]
    assert rows_of(tmp_path) == FINAL


COUNTING_POINTS = ("rebuild-pinned", "rebuild-counting", "rebuild-counted", *POINTS[5:])


@pytest.mark.slow
@pytest.mark.parametrize("step", COUNTING_POINTS)
@pytest.mark.parametrize("kind", ["lookup", "dynamic"])
def test_a_rebuild_that_is_killed_around_its_count_counts_again_and_switches_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, kind: str
) -> None:
    topic = start(tmp_path, KINDS[kind])
    damage(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(faults, "reached", lambda point, at: kill_if(point == step))
        with pytest.raises(Killed):
            finish_counting(topic, allows_missing=True)
    assert (77 not in rows_of(tmp_path)) == (step == "rebuild-switched")
    once_more(tmp_path)
    topic.records_.append(record(10, envelope(9, 99, v=1), key=9))
    topic.closed = 11
    expected = table(tmp_path).snapshots.latest_id()

    done = finish_counting(topic, allows_missing=True)

    assert done.rebuild is not None and done.rebuild.switch is not None
    assert rows_of(tmp_path) == {**FINAL, 9: 99}
    if step != "rebuild-switched":
        assert (done.rebuild.switch.counted_at, done.rebuild.switch.new_rows) == (expected, len(FINAL) + 1)
    kinds = [snapshot.commit_kind for snapshot in table(tmp_path).snapshots.newest_first()]
    assert kinds.count(CommitKind.OVERWRITE) == 1
    assert (tags(tmp_path), branches(tmp_path)) == ([TAG], [])


@pytest.mark.slow
def test_fewer_rows_are_seen_where_they_are_counted_beside_the_stream(tmp_path: Path) -> None:
    topic = start(tmp_path)
    topic.records_[3] = delete(3, 1003)
    at = table(tmp_path).snapshots.latest_id()
    with pytest.raises(ConfigError, match=rf"it has 4 rows, and the table has 5 \(counted at snapshot {at}\). Compare"):
        finish_counting(topic)
    assert rows_of(tmp_path) == FINAL
    run_batch(tmp_path, tmp_path / FILE, 2, delete(10, 3))
    topic.records_.append(delete(10, 3))
    topic.closed = 11

    finish_counting(topic)  # the table does not have that row either any more: it is counted again

    assert rows_of(tmp_path) == {key: n for key, n in FINAL.items() if key != 3}


@pytest.mark.slow
def test_rows_of_others_behind_the_count_are_seen_though_their_snapshots_have_expired(tmp_path: Path) -> None:
    topic = start(tmp_path)

    one = job(topic, most=100, counted_in_turn=-1)
    assert one.step() is Step.COUNTING
    count(topic, one.state)
    insert(tmp_path, 500)
    once_more(tmp_path)
    topic.records_.append(record(10, envelope(9, 99, v=1), key=9))
    topic.closed = 11
    forget_the_past(tmp_path)
    with pytest.raises(ConfigError, match=r"it has 6 rows, and the table has 7. Compare"):
        finish(job_of(topic, replays(topic).get("r1"), counted_in_turn=-1))
    assert rows_of(tmp_path)[500] == 1


@pytest.mark.slow
def test_what_was_counted_of_a_table_that_is_rolled_back_is_not_believed(tmp_path: Path) -> None:
    topic = start(tmp_path)
    one = job(topic, most=100, counted_in_turn=-1)
    assert one.step() is Step.COUNTING
    count(topic, one.state)
    orders = table(tmp_path)
    TagStore(orders.io, orders.paths).io.delete(orders.paths.tag_file(pin_of("r1")))  # as a rollback does
    assert job_of(topic, replays(topic).get("r1"), counted_in_turn=-1).step() is Step.COUNTING
    assert tags(tmp_path) == [pin_of("r1")]


def test_a_rebuild_that_is_given_up_while_it_is_counted_leaves_nothing(tmp_path: Path) -> None:
    topic = start(tmp_path)
    files = data_files(tmp_path)
    one = job(topic, most=100, counted_in_turn=-1)
    assert one.step() is Step.COUNTING
    give_up(replays(topic), one.state, table(tmp_path))
    assert (data_files(tmp_path), tags(tmp_path), branches(tmp_path)) == (files, [], [])
    with pytest.raises(ConfigError, match=r"branch 'rebuild-r1' of .* was removed"):
        count(topic, one.state)
    assert replays(topic).all() == []


# ---------------------------------------------------------------- rows that would be lost
