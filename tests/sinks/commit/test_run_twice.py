"""Two processes that run one pipeline under different checkpoints: one of them ends before records are there twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.storage.memory_io import MemoryDisk
from sinks.commit.positions import aside_user
from sinks.commit.table_sink import RunTwice, TableSink
from tests.support.table_driver import TableDriver
from tests.support.table_sinks import message, sink, table

PLACE = ("shop.public.t", 0)


def _commit(target: TableSink, batch_id: int, tmp_path: Path, *keys: int) -> None:
    written = message(target, batch_id, tmp_path, *keys)
    target.commit(batch_id, [written], {PLACE: max(keys) + 1}, lambda _: None, None)


def _another(of: TableSink, user: str = "copy") -> TableSink:
    return TableSink("lake.t", of.table.refreshed(), "shop", user, resumes=True)


def test_the_one_that_was_overtaken_writes_nothing_more(tmp_path: Path) -> None:
    first = sink(table(MemoryDisk()))
    _commit(first, 0, tmp_path, 0)
    second = _another(first)
    assert second.is_lost_checkpoint
    _commit(second, 0, tmp_path, 1)
    newest = first.table.snapshots.latest()

    with pytest.raises(RunTwice, match="two processes run the pipeline"):
        _commit(first, 1, tmp_path, 1)

    assert first.table.snapshots.latest() == newest
    _commit(second, 1, tmp_path, 2)
    assert [row[0] for row in TableDriver(second.table, tmp_path).content()] == [0, 1, 2]


def test_the_one_that_comes_second_writes_nothing_once_the_first_went_on(tmp_path: Path) -> None:
    """What it has read from is not what the table holds any more."""
    first = sink(table(MemoryDisk()))
    _commit(first, 0, tmp_path, 0)
    second = _another(first)
    _commit(first, 1, tmp_path, 1)

    with pytest.raises(RunTwice, match="lake"):
        _commit(second, 0, tmp_path, 1)

    _commit(first, 2, tmp_path, 2)
    started_anew = _another(first)
    _commit(started_anew, 0, tmp_path, 3)


def test_both_that_begin_with_a_table_without_rows(tmp_path: Path) -> None:
    first = sink(table(MemoryDisk()))
    second = _another(first)
    _commit(second, 0, tmp_path, 0)

    with pytest.raises(RunTwice):
        _commit(first, 0, tmp_path, 0)


def test_others_and_the_pipelines_own_work_beside_its_stream_are_no_second_process(tmp_path: Path) -> None:
    first = sink(table(MemoryDisk()))
    _commit(first, 0, tmp_path, 0)
    beside = _another(first, aside_user("checkpoint", 1))
    _commit(beside, 0, tmp_path, 1)
    other = TableSink("lake.t", first.table.refreshed(), "another", "job", resumes=True)
    _commit(other, 0, tmp_path, 2)

    _commit(first, 1, tmp_path, 3)

    assert len(TableDriver(first.table, tmp_path).content()) == 4
