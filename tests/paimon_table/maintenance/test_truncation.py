"""Emptied tables of every kind: nothing is left, older snapshots stay, writers go on as on a new table."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from paimon_table.commit.commit import TableCommit
from paimon_table.commit.delta import CommitResult
from paimon_table.errors import CommitConflict
from paimon_table.maintenance.job import ATTEMPTS, Job
from paimon_table.maintenance.partitions import truncate
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.index_file import HASH
from paimon_table.metadata.snapshot import CommitKind, SnapshotIdentity
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO, SimulatedCrash
from paimon_table.table import Table
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.support.plain_values import Plain
from tests.support.table_driver import TableDriver, new_table

COLUMNS = [("k", "INT"), ("dt", "STRING"), ("v", "INT")]


@dataclass(frozen=True)
class Kind:
    """One kind of table."""

    options: Mapping[str, str]
    primary_key: tuple[str, ...] = ("k", "dt")
    partition_by: tuple[str, ...] = ("dt",)


KINDS = {
    "fixed": Kind({"bucket": "2"}),
    "without partitions": Kind({"bucket": "2"}, ("k",), ()),
    "dynamic": Kind({"bucket": "-1", "dynamic-bucket.target-row-num": "3"}),
    "moving rows": Kind({"bucket": "-1"}, ("k",)),
    "postponed": Kind({"bucket": "-2"}),
    "append": Kind({"bucket": "-1"}, ()),
    "append in buckets": Kind({"bucket": "2", "bucket-key": "k"}, ()),
    "deletion vectors": Kind({"bucket": "2", "deletion-vectors.enabled": "true"}),
    "lookup": Kind({"bucket": "1", "changelog-producer": "lookup"}),
    "full-compaction": Kind({"bucket": "1", "changelog-producer": "full-compaction"}),
    "input": Kind({"bucket": "1", "changelog-producer": "input"}),
    "partial-update": Kind({"bucket": "1", "merge-engine": "partial-update"}),
    "static overwrite": Kind({"bucket": "2", "dynamic-partition-overwrite": "false"}),
}

every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def job(tmp_path: Path) -> Job:
    return Job(WriterEnvironment(str(tmp_path / "job")))


def rows(keys: range, value: int) -> list[list[Plain]]:
    return [["+I", key, "ab"[key % 2], value] for key in keys]


def filled(tmp_path: Path, kind: Kind, io: MemoryFileIO | None = None) -> TableDriver:
    table = new_table(tmp_path / "t", COLUMNS, kind.primary_key, kind.partition_by, kind.options, io or MemoryFileIO())
    driver = TableDriver(table, tmp_path / "lookup")
    driver.commit(rows(range(20), 1))
    driver.commit(rows(range(10, 30), 2), full_compact="bucket" in kind.options and kind.options["bucket"] != "-2")
    driver.commit(rows(range(5), 3))
    return driver


def next_writer(of: TableDriver, tmp_path: Path) -> TableDriver:
    return TableDriver(Table.open(of.table.paths.root, io=of.table.io), tmp_path / "lookup", "next")


@pytest.mark.slow
@every_kind
def test_nothing_is_left_and_older_snapshots_stay(tmp_path: Path, kind: Kind) -> None:
    driver = filled(tmp_path, kind)
    before = driver.table.snapshots.latest()
    content, changes = driver.content(), driver.changes()
    assert before is not None

    done = truncate(driver.table, job(tmp_path))

    newest = driver.table.snapshots.latest()
    assert newest is not None
    assert (newest.id, done.snapshot_id) == (before.id + 1, before.id + 1)
    assert (newest.commit_kind, newest.total_record_count) == (CommitKind.OVERWRITE, 0)
    state = driver.state()
    assert (dict(state.files), state.index, driver.content()) == ({}, (), [])
    assert driver.content(before.id) == content
    assert [change.rows for change in driver.changes()] == [change.rows for change in changes]


@pytest.mark.slow
@every_kind
def test_writers_go_on_as_on_a_new_table(tmp_path: Path, kind: Kind) -> None:
    driver = filled(tmp_path, kind)
    truncate(driver.table, job(tmp_path))
    # Other partitions than before: nothing may look for the former rows of the keys.
    again: list[list[Plain]] = [["+I", key, "ba"[key % 2], 9] for key in range(8, 12)]
    following = next_writer(driver, tmp_path)
    following.commit(again)
    following.compact()

    twin = new_table(tmp_path / "twin", COLUMNS, kind.primary_key, kind.partition_by, kind.options, MemoryFileIO())
    other = TableDriver(twin, tmp_path / "lookup")
    other.commit(again)
    other.compact()
    assert following.content() == other.content() != []
    assert set(following.state().hash_files()) == set(other.state().hash_files())


@pytest.mark.slow
def test_index_files_go_too(tmp_path: Path) -> None:
    driver = filled(tmp_path, KINDS["dynamic"])
    assert {entry.file.index_type for entry in driver.state().index} == {HASH}
    truncate(driver.table, job(tmp_path))
    assert driver.state().index == ()


def test_an_empty_table_gets_no_snapshot(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", COLUMNS, ["k", "dt"], ["dt"], {}, MemoryFileIO())
    assert truncate(table, job(tmp_path)).snapshot_id is None
    assert table.snapshots.latest_id() is None


@pytest.mark.slow
@every_kind
def test_a_crash_at_any_step_leaves_all_rows_or_none(tmp_path: Path, kind: Kind) -> None:
    disk = MemoryDisk()
    driver = filled(tmp_path, kind, MemoryFileIO(disk))
    content = driver.content()
    outcomes = []
    whole = MemoryFileIO(disk.after_power_cut())
    truncate(Table.open(driver.table.paths.root, io=whole), job(tmp_path))
    for step in whole.changes:
        copy = disk.after_power_cut()
        with pytest.raises(SimulatedCrash):
            truncate(Table.open(driver.table.paths.root, io=MemoryFileIO(copy, step)), job(tmp_path))
        table = Table.open(driver.table.paths.root, io=MemoryFileIO(copy.after_power_cut()))
        left = table.state()
        assert TableDriver(table, tmp_path / "lookup").content() == (content if left.files else [])
        assert bool(left.index) is bool(left.files and driver.state().index)
        outcomes.append(bool(left.files))
        assert (truncate(table, job(tmp_path)).snapshot_id is None) is not bool(left.files)
        writer = TableDriver(table, tmp_path / "lookup", "next")
        writer.commit(rows(range(3), 7))
        writer.compact()
        assert [row[0] for row in writer.content()] == [0, 1, 2]
    assert outcomes == sorted(outcomes, reverse=True)
    assert (outcomes[:3], outcomes[-1]) == ([True] * 3, False)


def test_what_others_commit_meanwhile_goes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = filled(tmp_path, KINDS["fixed"])
    before = driver.state().snapshot_id
    _outrun(monkeypatch, TableDriver(driver.table, tmp_path / "other", "other"), times=ATTEMPTS - 1)
    assert truncate(driver.table, job(tmp_path)).snapshot_id == before + ATTEMPTS
    assert driver.content() == []


def test_others_who_keep_committing_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = filled(tmp_path, KINDS["fixed"])
    _outrun(monkeypatch, TableDriver(driver.table, tmp_path / "other", "other"), times=ATTEMPTS)
    with pytest.raises(CommitConflict, match="other writers keep committing to the table; nothing was removed"):
        truncate(driver.table, job(tmp_path))
    assert len(driver.content()) == 31


def _outrun(monkeypatch: pytest.MonkeyPatch, other: TableDriver, times: int) -> None:
    """Let another writer commit right before each of the first attempts."""
    left, original = itertools.count(), TableCommit.replace_all

    def replace_all(
        self: TableCommit,
        identifier: int,
        messages: Sequence[CommitMessage],
        properties: Mapping[str, str],
        before: SnapshotIdentity,
    ) -> CommitResult:
        if next(left) < times:
            other.commit([["+I", 99, "new", 1]])
        return original(self, identifier, messages, properties, before)

    monkeypatch.setattr(TableCommit, "replace_all", replace_all)
