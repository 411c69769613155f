"""Commits of a pipeline are compared with the position that the table records (docs/INVARIANTS.md, E3 to E5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.errors import CommitConflict
from paimon_table.storage.memory_io import MemoryDisk
from paimon_table.table import Table
from sinks.commit.positions import Position, cut_key
from sinks.commit.table_sink import RunTwice, TableSink
from tests.support.table_driver import TableDriver
from tests.support.table_sinks import message, sink, table

PLACE = ("shop.public.t", 0)
OTHER = ("shop.public.t", 1)


def _process(of: Table, user: str = "checkpoint") -> TableSink:
    return TableSink("lake.t", of.refreshed(), "shop", user, resumes=True)


def _commit(target: TableSink, batch_id: int, tmp_path: Path, key: int, end: int) -> bool:
    """Commit a row up to an offset; whether it was not there yet."""
    written = message(target, batch_id, tmp_path, key)
    return not target.commit(batch_id, [written], {PLACE: end}, lambda _: None, None).replayed


def _keys(of: Table, tmp_path: Path) -> list[object]:
    return sorted(row[0] for row in TableDriver(of.refreshed(), tmp_path).content())


@pytest.fixture
def written(tmp_path: Path) -> Table:
    target = sink(table(MemoryDisk()))
    assert _commit(target, 0, tmp_path, 0, 10)
    return target.table


def test_of_two_processes_that_do_the_same_step_one_brings_its_rows(written: Table, tmp_path: Path) -> None:
    """A process that everybody took for dead goes on beside the one that took its place."""
    late, early = _process(written), _process(written)
    assert _commit(early, 1, tmp_path, 1, 20)
    assert not _commit(late, 1, tmp_path, 1, 20)
    assert _keys(written, tmp_path) == [0, 1]


def test_a_step_that_is_built_on_another_position_is_planned_anew(written: Table, tmp_path: Path) -> None:
    late, early = _process(written), _process(written)
    planned = message(late, 1, tmp_path, 7)
    assert _commit(early, 1, tmp_path, 1, 15)
    with pytest.raises(CommitConflict, match="another process of pipeline shop has committed"):
        late.commit(1, [planned], {PLACE: 20}, lambda _: None, None)
    assert _keys(written, tmp_path) == [0, 1]

    late.refresh()
    assert late.routing().floors == {PLACE: 15}
    assert _commit(late, 1, tmp_path, 2, 20)
    assert _keys(written, tmp_path) == [0, 1, 2]


def test_the_process_of_another_checkpoint_ends_the_one_that_it_meets(written: Table, tmp_path: Path) -> None:
    first, second = _process(written), _process(written, "another-checkpoint")
    assert _commit(second, 0, tmp_path, 1, 20)
    with pytest.raises(RunTwice):
        _commit(first, 1, tmp_path, 1, 20)
    assert _keys(written, tmp_path) == [0, 1]


def test_rows_of_a_batch_number_that_was_used_before_are_written_if_they_lie_beyond_the_position(
    written: Table, tmp_path: Path
) -> None:
    """The number of a batch decides nothing: an older copy of a checkpoint gives numbers a second time."""
    target = _process(written)
    assert _commit(target, 0, tmp_path, 5, 11)
    assert not _commit(target, 9, tmp_path, 6, 11)
    assert _keys(written, tmp_path) == [0, 5]


def test_a_position_goes_back_to_each_cut_that_it_does_not_know() -> None:
    position = Position("user", {PLACE: 50, OTHER: 50}, topics={"shop.public.t": "id"})
    once = {"shop.public.t": "id", cut_key(PLACE): "30"}
    twice = {**once, cut_key(PLACE): "30,40"}

    after = position.among(once)
    assert after.offsets == {PLACE: 30, OTHER: 50}
    later = after.advanced({PLACE: 45}, once)
    assert later.offsets[PLACE] == 45 and later.among(once) == later
    assert later.among(twice).offsets[PLACE] == 40
    assert position.among(twice).offsets[PLACE] == 30
    assert not position.among({"shop.public.t": "another id", cut_key(OTHER): "30"}).offsets
