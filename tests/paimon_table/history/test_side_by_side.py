"""A writer, readers and two that expire, all at once on a real file system: nobody notices the others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from paimon_table.history.retention import Limits
from paimon_table.maintenance.expiration import Surroundings, expire
from paimon_table.table import Table
from tests.support.table_driver import TableDriver, new_table
from tests.support.waiting import seconds

COMMITS = 25


@pytest.mark.slow
def test_nobody_is_disturbed_by_those_who_expire(tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {"changelog-producer": "input", "num-sorted-run.compaction-trigger": "2"}
    driver = TableDriver(new_table(path, [("k", "INT"), ("v", "INT")], ["k"], (), options), tmp_path / "lookup")
    driver.commit([["+I", key, 0] for key in range(10)])
    is_over, errors, expired = threading.Event(), list[BaseException](), list[int]()

    def until_over(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                while not is_over.is_set():
                    work()
            except BaseException as error:
                errors.append(error)

        return run

    def remove() -> None:
        done = expire(Table.open(str(path)).context, Surroundings(), Limits(3, 3, 0, 50))
        expired.extend(done.snapshots)

    def read() -> None:
        table = Table.open(str(path))
        newest = table.snapshots.latest_id()
        try:
            rows = table.to_arrow().column("v").to_pylist()
        except Exception:
            if (table.snapshots.earliest_id() or 0) > (newest or 0):
                return  # what was read has expired meanwhile
            raise
        assert len(rows) == 10
        assert len(set(rows)) == 1

    threads = [threading.Thread(target=until_over(work)) for work in (remove, remove, read)]
    for thread in threads:
        thread.start()
    try:
        for value in range(1, COMMITS + 1):
            driver.commit([["+I", key, value] for key in range(10)])
    finally:
        is_over.set()
        for thread in threads:
            thread.join(seconds(30))

    assert [repr(error) for error in errors] == []
    remove()
    assert driver.content() == [[key, COMMITS] for key in range(10)]
    table = driver.table
    assert table.snapshots.earliest_id() == (table.snapshots.latest_id() or 0) - 2
    assert set(expired) == set(range(1, table.snapshots.earliest_id() or 0))
    live = {f.file_name for files in driver.state().files.values() for f in files}
    stored = {file.name for file in path.glob("bucket-*/*") if file.name.startswith("data-")}
    assert live <= stored
    assert len(stored) <= len(live) + 3
    assert list(path.glob("tidemark/removals/*")) == []
