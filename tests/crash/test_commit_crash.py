"""Creating a table and committing three batches, with a power cut after every single storage operation.

A batch adds one file per bucket and compacts the bucket; the names of the files tell which batches are inside, so lost
and doubled work shows in the names.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator

import pytest

from paimon_table.commit.commit import TableCommit
from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.metadata.table_state import TableState, load_state
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO, SimulatedCrash
from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import AddColumn
from tests.support.builders import committer, data_file, orders_schema

BATCHES = (0, 1, 2)
BUCKETS = (0, 1)
TOP = 5
_attempts = itertools.count()


def batches_of(file: DataFileMeta) -> list[int]:
    return [int(b) for b in file.file_name.split("@")[0].split("+")]


def file_of(batches: list[int], level: int) -> DataFileMeta:
    return data_file("+".join(map(str, sorted(batches))) + f"@{next(_attempts)}", level)


def messages_of(batch: int, state: TableState, appends: bool) -> list[CommitMessage]:
    """What the writers of a batch return for this state; without append, what compaction of level 0 alone returns."""
    messages = []
    for number in BUCKETS:
        bucket = BucketId(EMPTY_ROW, number)
        new = (file_of([batch], 0),) if appends else ()
        before = (*state.files_of(bucket), *new)
        fresh = [b for f in before if f.level == 0 for b in batches_of(f)]
        if fresh:
            after = (file_of([b for f in before for b in batches_of(f)], TOP),)
            messages.append(
                CommitMessage(
                    bucket=bucket,
                    total_buckets=4,
                    new_files=new,
                    compact_before=before,
                    compact_after=after,
                    compact_changelog=(file_of(fresh, 0),),
                )
            )
    return messages


def run_process(io: MemoryFileIO, completed: list[int]) -> None:
    """One life of the driver: open or create, evolve, then every batch that is not known to be complete."""
    table = Table.open_or_create("/w/t", orders_schema, io=io).evolve([AddColumn("x", parse_type("INT"))], time_ms=1)
    commit: TableCommit = committer(table, new_uuid=lambda: str(uuid.uuid4()))
    for batch in BATCHES:
        if batch not in completed:
            done = commit.committed_identifier()
            messages = messages_of(batch, commit.refresh(), appends=done is None or done < batch)
            commit.commit(batch, messages, {"offset": str(batch)})
            completed.append(batch)


def check_readable(disk: MemoryDisk) -> None:
    """Every snapshot is complete: all that it names exists, and earlier ids exist too."""
    io = MemoryFileIO(disk)
    table = Table.open("/w/t", io=io)
    newest = table.snapshots.latest_id() or 0
    for snapshot_id in range(1, newest + 1):
        snapshot = table.snapshots.read(snapshot_id)
        load_state(io, table.paths, snapshot)
        ManifestReader(io, table.paths).changelog_entries(snapshot)


def check_final(disk: MemoryDisk) -> None:
    io = MemoryFileIO(disk)
    table = Table.open("/w/t", io=io)
    assert table.schema.column_names == ("id", "name", "dt", "x")
    state = load_state(io, table.paths, table.snapshots.latest())
    for number in BUCKETS:
        files = state.files_of(BucketId(EMPTY_ROW, number))
        assert sorted(b for f in files for b in batches_of(f)) == list(BATCHES)
    changelog: dict[int, list[int]] = {number: [] for number in BUCKETS}
    for snapshot_id in range(1, state.snapshot_id + 1):
        for entry in ManifestReader(io, table.paths).changelog_entries(table.snapshots.read(snapshot_id)):
            changelog[entry.bucket.bucket] += batches_of(entry.file)
    assert changelog == {number: list(BATCHES) for number in BUCKETS}
    assert state.snapshot is not None
    assert state.snapshot.properties == {"offset": "2"}


def survive(first: MemoryFileIO, next_io: Callable[[MemoryDisk], MemoryFileIO]) -> MemoryDisk:
    """Restart after each crash until a process ends; returns the disk."""
    io = first
    completed: list[int] = []
    for _ in range(1000):
        try:
            run_process(io, completed)
        except SimulatedCrash:
            disk = io.disk.after_power_cut()
            if any("schema-0" in path for path in disk.files):
                check_readable(disk)
            io = next_io(disk)
        else:
            return io.disk
    raise AssertionError("it never ends")


def changes_without_crash() -> list[int]:
    io = MemoryFileIO()
    run_process(io, [])
    return io.changes


def test_undisturbed_run_gives_the_expected_table() -> None:
    disk = survive(MemoryFileIO(), MemoryFileIO)
    check_final(disk)
    assert len(changes_without_crash()) > 30


@pytest.mark.slow
def test_power_cut_after_any_change_loses_and_doubles_nothing() -> None:
    for crash_after in changes_without_crash():
        check_final(survive(MemoryFileIO(crash_after=crash_after), MemoryFileIO))


@pytest.mark.slow
@pytest.mark.parametrize("period", [17, 23, 31, 40])
def test_power_cuts_again_and_again_lose_and_double_nothing(period: int) -> None:
    lives: Iterator[int] = itertools.count(period)
    disk = survive(MemoryFileIO(crash_after=period), lambda disk: MemoryFileIO(disk, crash_after=next(lives)))
    check_final(disk)


@pytest.mark.slow
def test_replay_of_the_very_same_messages_after_any_change() -> None:
    """Spark may hand the same messages to a new committer; parts that are there are skipped, the others land."""
    messages = {}
    state = TableState()
    for batch in BATCHES:
        messages[batch] = messages_of(batch, state, appends=True)
        files = {m.bucket: m.compact_after for m in messages[batch]}
        state = TableState(files=files)

    def run(io: MemoryFileIO) -> None:
        table = Table.open_or_create("/w/t", orders_schema, io=io)
        for batch in BATCHES:
            committer(table, new_uuid=lambda: str(uuid.uuid4())).commit(batch, messages[batch], {"offset": str(batch)})

    whole = MemoryFileIO()
    run(whole)
    for crash_after in whole.changes:
        io = MemoryFileIO(crash_after=crash_after)
        with pytest.raises(SimulatedCrash):
            run(io)
        again = MemoryFileIO(io.disk.after_power_cut())
        run(again)
        table = Table.open("/w/t", io=again)
        assert table.snapshots.latest_id() == 2 * len(BATCHES)
        assert load_state(again, table.paths, table.snapshots.latest()).files == state.files
