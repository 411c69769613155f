"""Targets with deletion vectors: whose compaction is still due, and what is left of messages that are dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO
from paimon_table.table import Table
from sinks.write.bucket_task import WriteTask
from tests.support.table_driver import TableDriver
from tests.support.table_sinks import BUCKET, message, rows, sink, table

VECTORS = {"deletion-vectors.enabled": "true"}


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.mark.parametrize("options", [VECTORS, {"changelog-producer": "lookup"}], ids=["rows", "changes"])
def test_level_0_that_nobody_compacted_is_compacted_by_the_next_batch(
    disk: MemoryDisk, tmp_path: Path, options: dict[str, str]
) -> None:
    hidden = table(disk, **options)
    TableDriver(hidden, tmp_path, write_only=True).commit(rows(1))
    assert sink(hidden).pending_compactions(7, None) == (BUCKET,)
    TableDriver(hidden, tmp_path, commit_user="compactor").compact()
    assert sink(hidden).pending_compactions(7, None) == ()


@pytest.mark.parametrize(
    "options",
    [{}, {**VECTORS, "lookup-compact": "gentle"}, {**VECTORS, "deletion-vectors.merge-on-read": "true"}],
    ids=["no-vectors", "gentle", "merge-on-read"],
)
def test_level_0_that_readers_see_or_that_may_wait_waits(
    disk: MemoryDisk, tmp_path: Path, options: dict[str, str]
) -> None:
    waiting = table(disk, **options)
    TableDriver(waiting, tmp_path, write_only=True).commit(rows(1))
    assert sink(waiting).pending_compactions(7, None) == ()


def test_a_replayed_batch_compacts_what_its_first_run_appended(disk: MemoryDisk, tmp_path: Path) -> None:
    first = sink(table(disk, **VECTORS))
    whole = message(first, 0, tmp_path, 1, 2)
    appended = CommitMessage(bucket=BUCKET, total_buckets=1, new_files=whole.new_files)
    first.commit(0, [appended], {}, lambda step: None, None)
    again = sink(Table.open("/w/t", io=MemoryFileIO(disk)))
    assert TableDriver(again.table, tmp_path).content() == []

    assert again.pending_compactions(0, None) == (BUCKET,)
    task = WriteTask(0, (again.target(0, None),), str(tmp_path))
    again.commit(0, task.compact_bucket(0, BUCKET).messages, {}, lambda step: None, None)
    assert TableDriver(again.table, tmp_path).content() == [[1, "a"], [2, "a"]]
    assert again.pending_compactions(0, None) == ()


def test_the_files_of_dropped_messages_are_deleted_and_no_others(disk: MemoryDisk, tmp_path: Path) -> None:
    target = sink(table(disk, **VECTORS))
    for batch_id, keys in enumerate([range(3000), [1]]):
        target.commit(batch_id, [message(target, batch_id, tmp_path, *keys)], {}, lambda step: None, None)
    before = set(disk.files)
    dropped = message(target, 2, tmp_path, 2)
    created = set(disk.files) - before
    assert any("/index/" in path for path in created)
    target.target(2, None).context.remove_unpublished([dropped])
    assert set(disk.files) == before


@pytest.mark.slow
def test_tasks_see_the_vectors_of_the_batch_before(disk: MemoryDisk, tmp_path: Path) -> None:
    target = sink(table(disk, **VECTORS))
    for batch_id in range(5):
        keys = range(3000) if batch_id == 0 else [5, batch_id]
        target.commit(batch_id, [message(target, batch_id, tmp_path, *keys)], {}, lambda step: None, None)
        assert len(TableDriver(target.table, tmp_path).content()) == 3000
    assert target.state.deletion_files().keys() == {BUCKET}
