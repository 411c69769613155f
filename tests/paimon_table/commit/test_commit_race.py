"""Several committers on one table at once: every commit lands exactly once, or its caller is told."""

from __future__ import annotations

import multiprocessing
import random
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from paimon_table.commit.attempts import RetryWait
from paimon_table.errors import CommitConflict
from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.storage.file_io import LocalFileIO
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO
from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import AddColumn
from tests.support.builders import committer, data_file, message, orders_schema

COMMITS = 12
OPTIONS = {"commit.max-retries": "200", "commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "5 ms"}


def names(table: Table) -> list[str]:
    files = table.state().files
    return sorted(f.file_name for metas in files.values() for f in metas)


def commit_all(table: Table, user: str) -> None:
    commit = committer(table, user, retry_wait=RetryWait())
    for number in range(COMMITS):
        commit.commit(number, [message(number % 4, new_files=[data_file(f"{user}-{number}")])], {})


def commit_in_process(path: str, user: str) -> None:
    commit_all(Table.open(path), user)


def expected(users: list[str]) -> list[str]:
    return sorted(f"{user}-{number}" for user in users for number in range(COMMITS))


def test_threads_on_one_table_lose_and_double_nothing() -> None:
    disk = MemoryDisk()
    table = Table.create("/w/t", orders_schema(OPTIONS), io=MemoryFileIO(disk))
    users = ["a", "b", "c"]
    with ThreadPoolExecutor(len(users)) as threads:
        list(threads.map(lambda user: commit_all(Table.open("/w/t", io=MemoryFileIO(disk)), user), users))
    assert table.snapshots.latest_id() == len(users) * COMMITS
    assert names(table) == expected(users)


@pytest.mark.slow
def test_processes_on_one_table_lose_and_double_nothing(tmp_path: Path) -> None:
    table = Table.create(f"{tmp_path}/t", orders_schema(OPTIONS))
    users = ["a", "b"]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as processes:
        list(processes.map(commit_in_process, [table.paths.root] * 2, users))
    assert table.snapshots.latest_id() == len(users) * COMMITS
    assert names(table) == expected(users)
    assert not any(name.startswith(".") for name in LocalFileIO().list_names(table.paths.snapshot_dir))


def compact_all(table: Table, user: str) -> int:
    """Compact the bucket again and again as a writer does; returns how often others were faster."""
    told = 0
    commit = committer(table, user, retry_wait=RetryWait())
    for number in range(COMMITS):
        before = commit.refresh().files_of(BucketId(EMPTY_ROW, 0))
        time.sleep(random.random() / 1000)
        rows = sum(f.row_count for f in before)
        merged = data_file(f"{user}-{number}", 5, rows=rows)
        try:
            commit.commit(number, [message(0, compact_before=before, compact_after=[merged])], {})
        except CommitConflict:
            told += 1
    return told


def test_competing_compactions_are_told_and_no_row_is_lost() -> None:
    disk = MemoryDisk()
    table = Table.create("/w/t", orders_schema(OPTIONS), io=MemoryFileIO(disk))
    committer(table, "first").commit(0, [message(0, new_files=[data_file("x", rows=5), data_file("y", rows=6)])], {})
    with ThreadPoolExecutor(3) as threads:
        told = list(threads.map(lambda u: compact_all(Table.open("/w/t", io=MemoryFileIO(disk)), u), "abc"))
    newest = table.snapshots.latest()
    assert newest is not None
    (files,) = table.state(newest).files.values()
    assert [f.row_count for f in files] == [newest.total_record_count] == [11]
    assert newest.id == 1 + 3 * COMMITS - sum(told)


def test_two_processes_of_one_user_commit_each_identifier_once() -> None:
    disk = MemoryDisk()
    table = Table.create("/w/t", orders_schema(OPTIONS), io=MemoryFileIO(disk))
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda _: commit_all(Table.open("/w/t", io=MemoryFileIO(disk)), "same"), range(2)))
    identifiers = [table.snapshots.read(n).commit_identifier for n in range(1, (table.snapshots.latest_id() or 0) + 1)]
    assert identifiers == list(range(COMMITS))
    assert names(table) == expected(["same"])


def test_concurrent_creators_get_one_table() -> None:
    disk = MemoryDisk()
    with ThreadPoolExecutor(4) as threads:
        tables = list(threads.map(lambda _: Table.create("/w/t", orders_schema(), io=MemoryFileIO(disk)), range(8)))
    assert {t.schema.id for t in tables} == {0}
    assert [path for path in disk.files if "/schema/" in path] == ["/w/t/schema/schema-0"]


def test_concurrent_evolution_keeps_every_column() -> None:
    disk = MemoryDisk()
    table = Table.create("/w/t", orders_schema(), io=MemoryFileIO(disk))

    def add(number: int) -> None:
        Table.open("/w/t", io=MemoryFileIO(disk)).evolve([AddColumn(f"c{number}", parse_type("INT"))], time_ms=1)

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(add, range(6)))
    latest = table.refreshed().schema
    assert (latest.id, set(latest.column_names[3:])) == (6, {f"c{n}" for n in range(6)})
    assert len({f.id for f in latest.fields}) == len(latest.fields)
