"""How far a writer looks back in a table that others have written: no further than its batch can have begun."""

from __future__ import annotations

import time

import pytest

from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.paths import TablePaths
from paimon_table.storage.counting_io import CountingFileIO
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.table import Table
from tests.support.builders import committer, data_file
from tests.support.builders import message as commit_message
from tests.support.table_driver import new_table
from tests.support.table_sinks import sink

FOREIGN_SNAPSHOTS = 50


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def appended(name: str) -> CommitMessage:
    return commit_message(new_files=[data_file(name)], total_buckets=1)


@pytest.fixture
def io() -> CountingFileIO:
    return CountingFileIO(MemoryFileIO())


@pytest.fixture
def foreign(io: CountingFileIO) -> Table:
    """A table that somebody else has written for long."""
    table = new_table("/w/t", [("k", "INT"), ("v", "STRING")], ["k"], io=io)
    java = committer(table, "java")
    for n in range(FOREIGN_SNAPSHOTS):
        java.commit(n, [appended(f"f{n}")], {})
    io.requests.clear()
    return table


def snapshots_read(io: CountingFileIO) -> int:
    prefix = TablePaths("/w/t").snapshot_file(0)[:-1]
    return sum(kind == "read" and path.startswith(prefix) for kind, path in io.requests)


def test_the_first_commit_of_a_user_does_not_read_through_those_of_others(io: CountingFileIO, foreign: Table) -> None:
    commit = committer(foreign, "new")
    assert commit.committed_identifier(now_ms()) is None
    commit.commit(0, [appended("n")], {}, started_ms=now_ms())
    assert snapshots_read(io) <= 4


def test_a_start_does_not_look_for_unfinished_batches_before_the_last_closed_one(
    io: CountingFileIO, foreign: Table
) -> None:
    target = sink(foreign)
    io.requests.clear()
    assert target.unfinished_batch(3) is None
    assert not target.is_appended(4, now_ms())
    assert snapshots_read(io) <= 4


def test_a_batch_that_appended_and_did_not_compact_is_found_under_the_commits_of_others(foreign: Table) -> None:
    started_ms = now_ms()
    target = sink(foreign)
    target.commit(3, [appended("mine")], {}, lambda step: None, started_ms)
    committer(foreign, "java", clock_ms=now_ms).commit(99, [appended("x")], {})
    assert sink(foreign).unfinished_batch(3) == 3
