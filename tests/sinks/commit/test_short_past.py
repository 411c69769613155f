"""Who commits for a pipeline after another, to a table whose snapshots go sooner than clocks may differ."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from paimon_table.commit.own_commits import CLOCK_SKEW_MS
from paimon_table.errors import CommitOutcomeUnknown, RolledBack
from paimon_table.history.retention import Limits
from paimon_table.history.rollback import plan_rollback, roll_back
from paimon_table.maintenance.expiration import Surroundings, expire
from paimon_table.metadata.snapshot import Snapshot
from paimon_table.storage.memory_io import MemoryDisk
from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import AddColumn
from sinks.commit.pipeline_mark import write_mark
from sinks.commit.table_sink import TableSink
from tests.support.table_driver import TableDriver
from tests.support.table_sinks import message, sink, table

PLACE = ("shop.public.t", 0)
BATCHES = 4
SUCCESSORS = pytest.mark.parametrize("user", ["checkpoint+1700000000000", "new-checkpoint"], ids=["catch-up", "new"])


def _commit(target: TableSink, batch_id: int, tmp_path: Path, key: int) -> bool:
    """Commit a row, planned this moment; whether it was not there yet."""
    written = message(target, batch_id, tmp_path, key)
    started_ms = time.time_ns() // 1_000_000
    return not target.commit(batch_id, [written], {PLACE: key}, lambda _: None, started_ms).replayed


@pytest.fixture
def short(tmp_path: Path) -> Table:
    """A table with rows of the stream, of whose snapshots only the newest has not expired."""
    target = sink(table(MemoryDisk()))
    for batch_id in range(BATCHES):
        assert _commit(target, batch_id, tmp_path, batch_id)
    expire(target.table.context, Surroundings(), Limits(1, 1, 0, 100))
    write_mark(target.table.io, target.table.paths, "shop")
    return target.table


def _opened(of: Table, user: str) -> TableSink:
    return TableSink("lake.t", of.refreshed(), "shop", user, resumes=True)


def _others_only(of: Table, tmp_path: Path, number: int = 0) -> None:
    """Another writer commits twice and lets everything else expire."""
    job = of.refreshed().new_commit(f"job-{number}", is_new_user=True)
    for at in range(2):
        theirs = TableSink("lake.t", of.refreshed(), "another", "job", resumes=True)
        job.commit(at, [message(theirs, at, tmp_path, 20 + 2 * number + at)], {})
    expire(of.context, Surroundings(), Limits(1, 1, 0, 100))


def _process(of: Table) -> TableSink:
    """The stream in a new process."""
    return _opened(of, "checkpoint")


@pytest.mark.slow
def test_the_stream_goes_on_where_others_let_all_that_it_wrote_expire(short: Table, tmp_path: Path) -> None:
    target = _process(short)
    _others_only(short, tmp_path)
    for batch_id in range(BATCHES, BATCHES + 3):
        assert _commit(target, batch_id, tmp_path, batch_id)
        _others_only(short, tmp_path, batch_id)
        assert target.is_appended(batch_id, time.time_ns() // 1_000_000)
        assert not target.is_appended(batch_id + 1, time.time_ns() // 1_000_000)


@pytest.mark.parametrize("is_open", [True, False], ids=["in its process", "opened since"])
@pytest.mark.parametrize("others", [0, 1], ids=["at once", "after commits of others"])
def test_a_table_that_was_rolled_back_to_commits_of_others_has_lost_rows(
    short: Table, tmp_path: Path, is_open: bool, others: int
) -> None:
    """No snapshot shows the position; but the one that did has not expired, for older ones are there."""
    target = _process(short)
    _others_only(short, tmp_path)
    kept = short.snapshots.latest_id() or 0
    assert _commit(target, BATCHES, tmp_path, BATCHES)
    noted = target.position
    roll_back(short.context, plan_rollback(short.context, kept))
    for number in range(others):
        job = short.refreshed().new_commit(f"late-{number}", is_new_user=True)
        for at in range(3):
            job.commit(at, [], {}, also_empty=True)

    with pytest.raises(RolledBack):
        if is_open:
            target.refresh()
        else:
            TableSink("lake.t", short.refreshed(), "shop", "checkpoint", resumes=True, noted=noted)


def test_that_goes_for_a_batch_in_which_the_table_gets_a_column(short: Table, tmp_path: Path) -> None:
    target = _process(short)
    assert _commit(target, BATCHES, tmp_path, BATCHES)
    _others_only(short, tmp_path)
    target.evolve([AddColumn("w", parse_type("INT"))], 0)
    started_ms = time.time_ns() // 1_000_000
    assert target.is_appended(BATCHES, started_ms)
    assert not target.is_appended(BATCHES + 1, started_ms)


def test_a_process_does_not_guess_what_a_table_has_that_showed_it_no_position(short: Table, tmp_path: Path) -> None:
    """Another process may have committed the batch: one that was killed, or one of a newer copy of the checkpoint."""
    assert _commit(_process(short), BATCHES, tmp_path, BATCHES)
    _others_only(short, tmp_path)
    blind = _process(short)
    for _ in range(2):
        with pytest.raises(CommitOutcomeUnknown, match="have expired"):
            blind.is_appended(BATCHES, time.time_ns() // 1_000_000)
    assert BATCHES in [row[0] for row in TableDriver(short.refreshed(), tmp_path).content()]


def test_a_batch_that_was_begun_after_all_snapshots_that_are_there_is_in_none_of_those_that_have_expired(
    short: Table, tmp_path: Path
) -> None:
    _others_only(short, tmp_path)
    assert not _process(short).is_appended(BATCHES, time.time_ns() // 1_000_000 + 2 * CLOCK_SKEW_MS)


@pytest.mark.parametrize("is_published", [True, False])
def test_a_try_without_an_answer_is_not_guessed_at(
    short: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_published: bool
) -> None:
    target = _process(short)
    publish = type(short.publisher).publish_snapshot

    def unclear(publisher: Any, snapshot: Snapshot, *more: Any) -> bool:
        if is_published:
            publish(publisher, snapshot, *more)
        raise CommitOutcomeUnknown("nobody knows")

    with monkeypatch.context() as patched, pytest.raises(CommitOutcomeUnknown, match="nobody knows"):
        patched.setattr(type(short.publisher), "publish_snapshot", unclear)
        _commit(target, BATCHES, tmp_path, BATCHES)
    assert target.is_appended(BATCHES, 0) is is_published  # its snapshots tell

    _others_only(short, tmp_path)
    if not is_published:
        with pytest.raises(CommitOutcomeUnknown, match="have expired"):
            target.is_appended(BATCHES, time.time_ns() // 1_000_000)


@SUCCESSORS
def test_a_successor_commits_its_first_batch_once(short: Table, tmp_path: Path, user: str) -> None:
    assert not _opened(short, user).is_appended(0, time.time_ns() // 1_000_000)  # as after a kill before the commit

    assert _commit(_opened(short, user), 0, tmp_path, 10)
    assert not _commit(_opened(short, user), 0, tmp_path, 10)
    assert _commit(_opened(short, user), 1, tmp_path, 11)


@SUCCESSORS
def test_a_successor_finds_its_commit_below_those_of_others(short: Table, tmp_path: Path, user: str) -> None:
    assert _commit(_opened(short, user), 0, tmp_path, 10)
    job = short.refreshed().new_commit("job", is_new_user=True)
    for number in range(3):
        job.commit(number, [message(_opened(short, "job"), number, tmp_path, 20 + number)], {})

    assert not _commit(_opened(short, user), 0, tmp_path, 10)


def test_the_stream_goes_on_after_a_catch_up_of_which_its_own_snapshots_have_expired(
    short: Table, tmp_path: Path
) -> None:
    catch_up = _opened(short, "checkpoint+1700000000000")
    assert _commit(catch_up, 0, tmp_path, 10)
    assert _commit(catch_up, 1, tmp_path, 11)
    expire(catch_up.table.context, Surroundings(), Limits(1, 1, 0, 100))

    assert _commit(_opened(short, "checkpoint"), BATCHES, tmp_path, 12)
    assert not _commit(_opened(short, "checkpoint"), BATCHES, tmp_path, 12)
