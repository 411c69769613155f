"""Tables are tidied beside the query: what was committed is never waited for, what fails is told and tried again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from paimon_table import FilesystemCatalog, TableName
from paimon_table.errors import SinkUnavailable
from paimon_table.maintenance.expiration import Expired
from paimon_table.maintenance.tidying import Tidied
from paimon_table.maintenance.tidying import tidy as real_tidy
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO
from paimon_table.table import Table
from pipelines.tidying.tidier import Tidier, compact_left, found_tables, idle
from tests.support.builders import orders_schema
from tests.support.pipeline_run import wait_until
from tests.support.table_driver import TableDriver
from tests.support.table_sinks import rows, table
from tests.support.waiting import seconds

NOTHING = Tidied((), (), (), (), Expired())
NEWEST_ALONE = {"snapshot.num_retained.min": "1", "snapshot.num_retained.max": "1", "snapshot.time_retained": "0 ms"}


def tidier(tmp_path: Path, tidy: Callable[..., Tidied] | None = None) -> Tidier:
    return Tidier("shop", str(tmp_path), real_tidy if tidy is None else tidy, rests_s=0.0)


def test_snapshots_that_are_over_go_after_a_batch(tmp_path: Path) -> None:
    target = table(MemoryDisk(), **NEWEST_ALONE)
    driver = TableDriver(target, tmp_path)
    for key in range(5):
        driver.commit(rows(key))
    working = tidier(tmp_path)

    working.note("lake.t", target)
    working.close(drains=True)

    assert target.snapshots.earliest_id() == target.snapshots.latest_id() == 6
    assert len(driver.content()) == 5


def test_a_table_that_waits_is_not_queued_again_and_nobody_waits_for_it(tmp_path: Path) -> None:
    begun, may_end, done = threading.Event(), threading.Event(), list[str]()

    def slow(target: Table, *_: object, **__: object) -> Tidied:
        begun.set()
        assert may_end.wait(seconds(10))
        done.append(target.paths.root)
        return NOTHING

    working, target = tidier(tmp_path, slow), table(MemoryDisk())
    working.note("lake.t", target)
    assert begun.wait(seconds(10))
    for _ in range(50):
        working.note("lake.t", target)
        working.note("lake.other", target)
    may_end.set()
    working.close(drains=True)

    assert len(done) == 3


def test_the_work_of_many_batches_is_combined_and_the_last_is_not_forgotten(tmp_path: Path) -> None:
    done = list[str]()

    def counted(target: Table, *_: object, **__: object) -> Tidied:
        done.append(target.paths.root)
        return NOTHING

    working, target = Tidier("shop", str(tmp_path), counted, rests_s=3600.0), table(MemoryDisk())
    for _ in range(50):
        working.note("lake.t", target)
        wait_until(lambda: len(done) == 1, 10, "the first batch")
    working.close(drains=True)

    assert len(done) == 2


def test_tables_in_a_store_are_tidied_in_parallel(tmp_path: Path) -> None:
    at_once, done = threading.Barrier(8), list[int]()
    targets = [FilesystemCatalog(MemoryFileIO(), "s3://bucket/w").create(TableName("lake", "t"), orders_schema())] * 8

    def waiting(*_: object, **__: object) -> Tidied:
        done.append(at_once.wait(seconds(10)))
        return NOTHING

    working = Tidier("shop", str(tmp_path), waiting, tables=lambda: {f"lake.t{n}": t for n, t in enumerate(targets)})
    for number, target in enumerate(targets):
        working._waiting[f"lake.t{number}"] = target
    working.start()
    working.close(drains=True)

    assert sorted(done) == list(range(8))


def test_a_stop_waits_for_the_table_that_is_tidied_and_no_other(tmp_path: Path) -> None:
    begun, may_end, done = threading.Event(), threading.Event(), list[str]()

    def slow(*_: object, **__: object) -> Tidied:
        begun.set()
        assert may_end.wait(seconds(10))
        done.append("one")
        return NOTHING

    working, target = tidier(tmp_path, slow), table(MemoryDisk())
    working.note("lake.t", target)
    assert begun.wait(seconds(10))
    working.note("lake.other", target)
    working.close(drains=False, timeout_s=0.0)
    may_end.set()
    working.close(drains=False)
    working.note("lake.t", target)

    assert done == ["one"]


def test_what_fails_is_told_once_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    calls = []

    def failing(target: Table, *_: object, **__: object) -> Tidied:
        calls.append(target)
        raise SinkUnavailable("the disk is on fire") if len(calls) < 3 else ValueError("what is that")

    working, target = tidier(tmp_path, failing), table(MemoryDisk())
    with caplog.at_level(logging.WARNING):
        for expected in (1, 2, 3):
            working.note("lake.t", target)
            wait_until(lambda count=expected: len(calls) == count, 10, "a try")  # type: ignore[misc]
        working.close(drains=True)

    first, second = (record.getMessage() for record in caplog.records)
    assert "lake.t: Tidemark could not remove expired files (the disk is on fire)" in first
    assert f"'tidemark table expire {target.paths.root}'" in first
    assert "unexpected ValueError('what is that')" in second


def test_write_only_tables_are_left_to_who_compacts_them(tmp_path: Path) -> None:
    target = table(MemoryDisk(), write_only="true", **NEWEST_ALONE)
    driver = TableDriver(target, tmp_path)
    for key in range(3):
        driver.commit(rows(key))
    working = tidier(tmp_path)

    working.note("lake.t", target)
    working.close(drains=True)

    assert target.snapshots.earliest_id() == 1


def test_tables_without_batches_are_tidied_again_and_again(tmp_path: Path) -> None:
    """Snapshots are over by time, tags and partitions too; nobody commits meanwhile."""
    target = table(MemoryDisk(), **NEWEST_ALONE)
    driver = TableDriver(target, tmp_path)
    working = Tidier("shop", str(tmp_path), tables=lambda: {"lake.t": target}, again_s=0.05, rests_s=0.0)
    working.start()
    for first in (1, 3):
        driver.commit(rows(first))
        driver.commit(rows(first + 1))
        wait_until(
            lambda: target.snapshots.earliest_id() == target.snapshots.latest_id(),
            10,
            "an idle table to be tidied",
        )
    working.close(drains=False)


def test_tables_that_were_tidied_lately_are_not_taken_for_idle() -> None:
    assert idle(["a", "b", "c"], {"a": 100.0, "b": 41.0}, now_s=101.0, again_s=60.0) == ["b", "c"]


def test_a_table_that_cannot_be_opened_keeps_no_other_from_being_tidied() -> None:
    io = MemoryFileIO()
    catalog = FilesystemCatalog(io, "/w")
    names = [TableName("lake", name) for name in ("broken", "gone", "sound")]
    for name in names:
        catalog.create(name, orders_schema())
    io.write(catalog.files(names[0]).paths.schema_file(0), b"{")
    catalog.drop(names[1])

    assert list(found_tables(catalog, names)) == ["lake.sound"]


def test_write_only_tables_are_left_alone_while_they_are_idle_too(tmp_path: Path) -> None:
    target, asked = table(MemoryDisk(), write_only="true", **NEWEST_ALONE), threading.Semaphore(0)
    driver = TableDriver(target, tmp_path)
    for key in range(3):
        driver.commit(rows(key))

    def tables() -> dict[str, Table]:
        asked.release()
        return {"lake.t": target}

    working = Tidier("shop", str(tmp_path), tables=tables, again_s=0.02, rests_s=0.0)
    working.start()
    for _ in range(3):
        assert asked.acquire(timeout=seconds(30))
    working.close(drains=True)

    assert target.snapshots.earliest_id() == 1


def test_what_was_done_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    target = table(MemoryDisk(), **{"tag.automatic_creation": "process-time"})
    TableDriver(target, tmp_path).commit(rows(1))
    working = tidier(tmp_path)

    with caplog.at_level(logging.INFO):
        working.note("lake.t", target)
        working.close(drains=True)

    assert [record.getMessage().split(" 2")[0] for record in caplog.records] == ["lake.t: made tag"]


@pytest.mark.parametrize(
    ("options", "is_compacted"),
    [
        ({"changelog_producer": "lookup"}, True),
        ({"changelog_producer": "lookup", "lookup_compact": "gentle"}, False),  # it waits for more files
        ({"changelog_producer": "lookup", "write_only": "true"}, False),  # a job of its own does it
        ({"changelog_producer": "none"}, False),  # its readers have the rows already
    ],
    ids=str,
)
def test_rows_that_were_left_are_compacted_where_readers_wait_for_that(
    tmp_path: Path, options: dict[str, str], is_compacted: bool
) -> None:
    given = {name.replace("lookup_compact", "lookup-compact"): value for name, value in options.items()}
    target = table(MemoryDisk(), **given)
    TableDriver(target, tmp_path, write_only=True).commit(rows(1, 2))

    compact_left({"lake.t": target}, str(tmp_path / "work"))

    assert (target.snapshots.latest_id() == 2) is is_compacted
    assert len(TableDriver(target, tmp_path).content()) == 2


def test_rows_that_cannot_be_compacted_now_do_not_end_the_pipeline(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = MemoryDisk()
    target = table(disk, changelog_producer="lookup")
    TableDriver(target, tmp_path, write_only=True).commit(rows(1, 2))
    for path in [path for path in disk.files if "/bucket-0/" in path]:
        del disk.files[path]

    with caplog.at_level(logging.WARNING):
        compact_left({"lake.t": target}, str(tmp_path / "work"))

    assert "lake.t: rows from before this start are not compacted" in caplog.text
