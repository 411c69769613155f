"""Commands about tags, branches, consumers, orphans and hints, with a power cut after each storage operation.

Whatever a cut leaves can be read, by the table and by everything that is listed beside it, and the same command again
brings about what it would have brought undisturbed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pytest

from paimon_table.errors import ConfigError
from paimon_table.history.branches import BranchStore
from paimon_table.history.consumers import ConsumerStore
from paimon_table.history.tags import TagStore
from paimon_table.history.tags import create_tag as tag_snapshot
from paimon_table.metadata.paths import BranchPaths
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO, SimulatedCrash
from paimon_table.table import Table
from pipelines.jobs import history_jobs, upkeep
from tests.support.plain_values import Plain
from tests.support.table_driver import TableDriver, new_table

ROOT = "/w/t"
UUID = "0b1c6b5e-4c1f-4d55-9d3c-3f1c1a4c9d11"

COMMANDS: dict[str, Callable[[], None]] = {
    "tags create": lambda: history_jobs.create_tag(ROOT, "new", 2, None, False, None),
    "tags create, retained": lambda: history_jobs.create_tag(ROOT, "new", 2, "1 d", False, None),
    "tags delete": lambda: history_jobs.delete_tags(ROOT, ["t"], False, None),
    "tags delete, several": lambda: delete_tags("t", "u"),
    "branches create": lambda: history_jobs.create_branch(ROOT, "new", None, False, None),
    "branches create, at a tag": lambda: history_jobs.create_branch(ROOT, "new", "t", False, None),
    "branches delete": lambda: history_jobs.delete_branch(ROOT, "b", True, False, None),
    "consumers reset": lambda: history_jobs.reset_consumer(ROOT, "c", 3, False, False, None),
    "consumers reset, new": lambda: history_jobs.reset_consumer(ROOT, "new", 3, True, False, None),
    "consumers delete": lambda: history_jobs.delete_consumer(ROOT, "c", False, None),
    "remove-orphans": lambda: upkeep.remove_orphans(ROOT, "1 d", False, False, None),
    "repair": lambda: upkeep.repair(ROOT, False, False, None),
}


def delete_tags(*names: str) -> None:
    """Those that are there: of two, the first may be gone."""
    for name in names:
        with suppress(ConfigError):
            history_jobs.delete_tags(ROOT, [name], False, None)


@pytest.fixture
def table(tmp_path: Path) -> tuple[MemoryDisk, list[list[Plain]]]:
    """Four snapshots, two tags, a branch, a consumer, orphans and wrong hints; with the rows."""
    io = MemoryFileIO()
    options = {"changelog-producer": "lookup", "snapshot.num-retained.min": "1"}
    driver = TableDriver(new_table(ROOT, [("id", "INT"), ("v", "INT")], ["id"], (), options, io), tmp_path / "lookup")
    for commit in range(4):
        driver.commit([["+I", n, commit] for n in range(commit, commit + 3)])
    paths = driver.table.paths
    tags = TagStore(io, paths)
    for name, snapshot in (("t", 3), ("u", 8)):
        path = paths.snapshot_file(snapshot)
        tag_snapshot(tags, name, path, now=lambda: datetime(2026, 1, 1), retained_ms=None)
    BranchStore(io, paths).create("b", tags.read("u"))
    ConsumerStore(io, paths).reset("c", 2)
    for name in (f"bucket-0/data-{UUID}-0.parquet", f"manifest/manifest-{UUID}-0"):
        io.write(f"{ROOT}/{name}", b"nobody refers to this")
    io.write(paths.latest_hint, b"2")
    io.write(paths.earliest_hint, b"77")
    disk = io.disk.after_power_cut()
    disk.modified_ms.update(dict.fromkeys(disk.files, 1))
    return disk, driver.content()


def check(disk: MemoryDisk, rows: list[list[Plain]], tmp_path: Path) -> None:
    """The table, its tags, its branches and its consumers can be read."""
    io = MemoryFileIO(copied(disk))
    opened = Table.open(ROOT, io=io)
    driver = TableDriver(opened, tmp_path)
    assert driver.content() == rows
    at_tag = TableDriver(opened, tmp_path).content(3)
    for tag in TagStore(io, opened.paths).all():
        assert driver.content(tag.snapshot.id)
    branches = BranchStore(io, opened.paths)
    for name in branches.names():
        if branches.snapshots(name).latest() is not None:
            line = Table.open_line(io, BranchPaths(ROOT, name))
            assert line is not None
            assert TableDriver(line, tmp_path).content() == (at_tag if name == "new" else rows)
    ConsumerStore(io, opened.paths).all()


def copied(disk: MemoryDisk) -> MemoryDisk:
    return MemoryDisk(dict(disk.files), modified_ms=dict(disk.modified_ms))


@pytest.mark.crash
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_power_cut_after_any_operation(
    table: tuple[MemoryDisk, list[list[Plain]]],
    command: Callable[[], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk, rows = table

    def run(on: MemoryDisk, crash_after: int | None = None) -> MemoryFileIO:
        io = MemoryFileIO(on, crash_after)
        for module in (history_jobs, upkeep):
            monkeypatch.setattr(module, "open_table", lambda *_, **__: Table.open(ROOT, io=io))
        monkeypatch.setattr(upkeep, "file_io_for", lambda *_: (io, ROOT))
        command()
        return io

    undisturbed = run(copied(disk))
    whole = undisturbed.disk
    assert whole.files != disk.files, "the command does nothing"
    check(whole, rows, tmp_path)
    assert undisturbed.changes
    for crash_after in undisturbed.changes:
        on = copied(disk)
        with pytest.raises(SimulatedCrash):
            run(on, crash_after)
        left = on.after_power_cut()
        check(left, rows, tmp_path)
        try:
            run(left)
        except ConfigError as error:  # what is to be made is there, what is to be deleted is gone
            if "already has a branch 'new'; delete it first" in str(error):
                history_jobs.delete_branch(ROOT, "new", True, False, None)
                run(left)
        check(left, rows, tmp_path)
        assert set(left.files) == set(whole.files), f"crash after {crash_after}"
