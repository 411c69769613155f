"""The state of a table in memory: loaded, advanced by deltas, advanced by own commits."""

from __future__ import annotations

import pytest

from paimon_table.errors import BrokenInvariant, CorruptFile
from paimon_table.mergetree.levels import next_sequence_number
from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.table_state import TableState, advance_state
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.table import Table
from tests.support.builders import committer, data_file, message, orders_schema


@pytest.fixture
def table() -> Table:
    return Table.create("/w/t", orders_schema(), io=MemoryFileIO())


def contents(state: TableState) -> set[tuple[int, str, int]]:
    return {(b.bucket, f.file_name, f.level) for b, files in state.files.items() for f in files}


def loaded(table: Table) -> TableState:
    return table.state()


def test_empty_table_has_an_empty_state(table: Table) -> None:
    assert loaded(table) == TableState()
    assert committer(table).refresh() == TableState()


def test_state_after_own_commits_equals_the_loaded_one_and_reads_nothing(table: Table) -> None:
    commit = committer(table)
    a, b, c = data_file("a"), data_file("b"), data_file("c", 5)
    commit.commit(1, [message(0, new_files=[a]), message(1, new_files=[b])], {})
    commit.commit(2, [message(0, compact_before=[a], compact_after=[a.at_level(4)])], {})
    commit.commit(3, [message(1, new_files=[c], compact_before=[b])], {})
    assert contents(commit.state) == {(0, "a", 4), (1, "c", 5)}
    assert contents(commit.state) == contents(loaded(table))
    assert commit.state.snapshot == table.snapshots.latest()
    assert commit.state.total_buckets == {EMPTY_ROW: 4}


def test_state_follows_other_committers_by_their_deltas(table: Table) -> None:
    mine, theirs = committer(table, "mine"), committer(table, "theirs")
    a = data_file("a")
    mine.commit(1, [message(0, new_files=[a])], {})
    theirs.commit(1, [message(0, new_files=[data_file("b")], compact_before=[a])], {})
    theirs.commit(2, [message(2, new_files=[data_file("c")])], {})
    assert contents(mine.refresh()) == contents(loaded(table)) == {(0, "b", 0), (2, "c", 0)}


def test_state_is_loaded_anew_when_deltas_have_expired(table: Table) -> None:
    mine, theirs = committer(table, "mine"), committer(table, "theirs")
    mine.commit(1, [message(0, new_files=[data_file("a")])], {})
    for number in range(1, 4):
        theirs.commit(number, [message(0, new_files=[data_file(f"t{number}")])], {})
    table.io.delete(table.paths.snapshot_file(2))
    state = advance_state(table.io, table.paths, mine.state, table.snapshots.latest())
    assert contents(state) == contents(loaded(table))
    assert state.snapshot_id == 4


def test_bucket_and_partition_without_files_disappear(table: Table) -> None:
    commit = committer(table)
    a = data_file("a")
    commit.commit(1, [message(0, new_files=[a])], {})
    commit.commit(2, [message(0, compact_before=[a])], {})
    assert (commit.state.files, commit.state.total_buckets) == ({}, {})
    assert commit.state.files_of(BucketId(EMPTY_ROW, 0)) == ()


def test_only_the_direct_successor_can_be_applied(table: Table) -> None:
    commit = committer(table)
    for number in (1, 2):
        commit.commit(number, [message(0, new_files=[data_file(f"f{number}")])], {})
    with pytest.raises(BrokenInvariant, match="does not follow"):
        TableState().with_committed(table.snapshots.read(2), [])


def test_missing_manifest_is_a_damaged_table(table: Table) -> None:
    commit = committer(table)
    commit.commit(1, [message(0, new_files=[data_file("a")])], {})
    snapshot = table.snapshots.read(1)
    table.io.delete(table.paths.manifest_file(snapshot.delta_manifest_list))
    with pytest.raises(CorruptFile, match="is missing although a snapshot names it"):
        loaded(table)


def test_next_sequence_number_follows_the_largest() -> None:
    assert next_sequence_number([]) == 0
    assert next_sequence_number([data_file("a", rows=5), data_file("b", rows=3)]) == 5
