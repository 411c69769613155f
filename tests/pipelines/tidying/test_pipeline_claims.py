"""Pipelines find their newest snapshot although others expire the table: batches are committed once, positions stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table import TableCommit
from paimon_table.history.retention import Limits
from paimon_table.maintenance.expiration import Surroundings, expire
from paimon_table.maintenance.rescale import RESCALE_PROPERTY
from paimon_table.storage.memory_io import MemoryDisk
from paimon_table.table import Table
from pipelines.tidying.pipeline_claims import LIVE_PIPELINE_MS, LIVE_USER_MS, pipeline_claims
from sinks.commit.positions import aside_user, newest_position
from sinks.commit.table_sink import TableSink
from tests.support.table_sinks import message, table

NEWEST_ALONE = Limits(1, 1, 0, 1000)
PLACE = ("shop.public.t", 0)


def sink(of: Table, pipeline: str, user: str) -> TableSink:
    return TableSink("lake.t", of, pipeline, user, resumes=True)


def commit(target: TableSink, batch_id: int, tmp_path: Path) -> None:
    target.refresh()
    target.commit(batch_id, [message(target, batch_id, tmp_path, batch_id)], {PLACE: batch_id + 1}, lambda _: None, 0)


def expired(target: Table, own: str, after_ms: int = 0) -> list[int]:
    now_ms = (target.snapshots.latest() or target.snapshots.read(1)).time_ms + after_ms + 1
    done = expire(target.context, Surroundings(clock_ms=lambda: now_ms, claims=pipeline_claims(own)), NEWEST_ALONE)
    return list(done.snapshots)


def busy_table(tmp_path: Path) -> Table:
    """Pipeline ``rare`` has written once, under one checkpoint and then another; pipeline ``often`` ever since."""
    target = table(MemoryDisk())
    commit(sink(target, "often", "user-o"), 0, tmp_path)
    commit(sink(target, "rare", "user-old"), 0, tmp_path)
    commit(sink(target, "rare", "user-new"), 7, tmp_path)
    often = sink(target, "often", "user-o")
    for batch_id in range(1, 5):
        commit(often, batch_id, tmp_path)
    return target


def test_the_newest_snapshot_of_another_pipeline_stays_while_it_may_come_back(tmp_path: Path) -> None:
    target = busy_table(tmp_path)

    assert expired(target, "often") == [1], "the old checkpoint of the other pipeline may be the live one"
    assert expired(target, "often", LIVE_USER_MS) == [2]
    rare = sink(target, "rare", "user-new")
    assert rare.is_appended(7, 0)
    position = newest_position(target.snapshots, "rare")
    assert position is not None and position.offsets == {PLACE: 8}

    assert expired(target, "often", LIVE_PIPELINE_MS) == list(range(3, target.snapshots.latest_id() or 0))


def test_a_pipeline_keeps_its_own_newest_snapshot_for_ever(tmp_path: Path) -> None:
    target = busy_table(tmp_path)

    assert expired(target, "rare", 1000 * LIVE_PIPELINE_MS) == [1, 2]
    assert expired(target, "rare", 1000 * LIVE_PIPELINE_MS) == []


def test_snapshots_of_jobs_are_kept_by_nobody(tmp_path: Path) -> None:
    target = busy_table(tmp_path)
    job: TableCommit = target.new_commit("a-job")
    often = sink(target, "often", "user-o")
    job.commit(1, [message(often, 9, tmp_path, 9)], {})
    for batch_id in (10, 11):
        commit(often, batch_id, tmp_path)

    assert expired(target, "often", LIVE_PIPELINE_MS + 1) == list(range(1, target.snapshots.latest_id() or 0))


def test_who_has_caught_a_table_up_keeps_nothing_once_its_stream_goes_on(tmp_path: Path) -> None:
    target = table(MemoryDisk())
    commit(sink(target, "shop", "user"), 0, tmp_path)
    aside = sink(target, "shop", aside_user("user", 1_700_000_000_000))
    for number in (1, 2):
        commit(aside, number, tmp_path)
    assert expired(target, "shop") == [1, 2]
    assert aside.is_appended(2, 0)

    commit(sink(target, "shop", "user"), 5, tmp_path)
    assert expired(target, "shop") == [3]
    assert sink(target, "shop", "user").is_appended(5, 0)


def test_checkpoints_of_pipelines_with_a_plus_in_their_names_are_told_apart(tmp_path: Path) -> None:
    target = table(MemoryDisk())
    commit(sink(target, "a+b", "tidemark-a+b-1111"), 0, tmp_path)

    assert sink(target, "a+b", "tidemark-a+b-2222").is_lost_checkpoint
    assert not sink(target, "a+b", aside_user("tidemark-a+b-1111", 7)).is_lost_checkpoint
    commit(sink(target, "a+c", "tidemark-a+c-3333"), 0, tmp_path)
    assert expired(target, "a+c") == []


@pytest.mark.parametrize(("name", "is_claimed"), [(RESCALE_PROPERTY, False), ("tidemark.retry", True)])
def test_a_rescale_does_not_come_back_for_its_snapshot(name: str, is_claimed: bool) -> None:
    snapshot = table(MemoryDisk()).new_commit("job").commit(0, [], {name: "x"}, also_empty=True).append
    assert snapshot is not None
    assert bool(pipeline_claims("often")(snapshot)) is is_claimed
