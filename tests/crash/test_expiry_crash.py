"""Expiry with a power cut after every single storage operation: every snapshot that is listed can be read at any time,

and the next expiry finishes the work: nothing is left that nobody needs, and nothing is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from paimon_table.errors import CommitConflict, ConfigError
from paimon_table.history.branches import BranchStore
from paimon_table.history.expiry import plan_expiry
from paimon_table.history.removal import carry_out
from paimon_table.history.retention import Limits
from paimon_table.history.rollback import plan_rollback, plan_rollback_to_tag, roll_back
from paimon_table.history.snapshot_names import all_names, changelog_names
from paimon_table.history.tag_removal import plan_tag_removal
from paimon_table.history.tags import TagStore, create_tag
from paimon_table.maintenance.expiration import Surroundings, expire
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.option_parsing import parse_options
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO, SimulatedCrash
from paimon_table.surroundings import now_ms, random_uuid
from paimon_table.table import Table
from tests.support.plain_values import Plain
from tests.support.table_driver import TableDriver, new_table

ROOT = "/w/t"
NEWEST_ALONE = {"snapshot.num-retained.min": "1", "snapshot.time-retained": "0 ms"}
LONG_LIVED = {**NEWEST_ALONE, "changelog.num-retained.min": "3", "changelog.time-retained": "1 ms"}
EXPIRIES = {
    "lookup": ({"changelog-producer": "lookup"}, NEWEST_ALONE),
    "long-lived changelog": ({"changelog-producer": "lookup"}, LONG_LIVED),
    "long-lived changelog without producer": ({}, LONG_LIVED),
    "vectors": ({"deletion-vectors.enabled": "true"}, {**NEWEST_ALONE, "snapshot.expire.limit": "2"}),
}


def written(tmp_path: Path, options: Mapping[str, str]) -> tuple[MemoryDisk, list[list[Plain]], list[list[Plain]]]:
    """A table with a tag at snapshot 3; with the rows at the end and at the tag."""
    io = MemoryFileIO()
    driver = TableDriver(new_table(ROOT, [("id", "INT"), ("v", "INT")], ["id"], (), options, io), tmp_path / "lookup")
    for commit in range(4):
        driver.commit([["+I", n, commit] for n in range(commit, commit + 3)], full_compact=commit == 2)
    table = driver.table
    path = table.paths.snapshot_file(3)
    create_tag(TagStore(io, table.paths), "t", path, now=lambda: datetime(2026, 1, 1), retained_ms=None)
    return io.disk, driver.content(), driver.content(3)


def context(io: MemoryFileIO, options: Mapping[str, str]) -> TableContext:
    table = Table.open(ROOT, io=io)
    return replace(table.context, options=parse_options({**table.schema.options, **options}, table.schema))


def check_readable(disk: MemoryDisk, rows: list[list[Plain]], at_tag: list[list[Plain]], tmp_path: Path) -> None:
    """Every snapshot that is listed, the tag, and every changelog can be read."""
    io = MemoryFileIO(disk)
    table = Table.open(ROOT, io=io)
    driver = TableDriver(table, tmp_path)
    store = table.snapshots
    for snapshot_id in range(store.earliest_id() or 1, (store.latest_id() or 0) + 1):
        driver.content(snapshot_id)
    assert driver.content() == rows
    tag = TagStore(io, table.paths).find("t")
    if tag is not None:
        names = all_names(ManifestReader(io, table.paths), [tag.snapshot])
        assert names <= {path.rpartition("/")[2] for path in disk.files}
    for number in store.changelog_ids():
        log = store.find_changelog(number)
        assert log is not None
        assert changelog_names(ManifestReader(io, table.paths), log) <= {p.rpartition("/")[2] for p in disk.files}


def disk_after(disk: MemoryDisk) -> MemoryDisk:
    return MemoryDisk(dict(disk.files))


def interrupted(disk: MemoryDisk, work: Callable[[MemoryFileIO], None]) -> list[MemoryDisk]:
    """What every possible crash of ``work`` leaves, the same things once, and at the end what it leaves undisturbed."""
    undisturbed = MemoryFileIO(disk_after(disk))
    work(undisturbed)
    left: list[MemoryDisk] = []
    for crash_after in undisturbed.changes:
        io = MemoryFileIO(disk_after(disk), crash_after)
        with pytest.raises(SimulatedCrash):
            work(io)
        disk_left = io.disk.after_power_cut()
        if not left or left[-1].files != disk_left.files:
            left.append(disk_left)
    return [*left, undisturbed.disk]


@pytest.mark.slow
@pytest.mark.parametrize("case", EXPIRIES.values(), ids=EXPIRIES)
def test_power_cut_after_any_operation_of_an_expiry(
    case: tuple[dict[str, str], dict[str, str]], tmp_path: Path
) -> None:
    options, asked = case
    disk, rows, at_tag = written(tmp_path, options)

    def work(io: MemoryFileIO) -> None:
        expire(context(io, asked), Surroundings())

    *crashed, whole = interrupted(disk, work)

    assert len(whole.files) < len(disk.files)
    for left in crashed:
        check_readable(left, rows, at_tag, tmp_path)
        work(MemoryFileIO(left))
        check_readable(left, rows, at_tag, tmp_path)
        assert left.files == whole.files


@pytest.mark.slow
def test_power_cut_after_any_operation_of_deleting_a_tag(tmp_path: Path) -> None:
    disk, rows, at_tag = written(tmp_path, {"changelog-producer": "lookup"})
    expire(context(MemoryFileIO(disk), NEWEST_ALONE), Surroundings())

    def work(io: MemoryFileIO) -> None:
        ctx = context(io, NEWEST_ALONE)
        tag = TagStore(io, ctx.paths).find("t")
        if tag is not None:
            carry_out(io, ctx.paths, plan_tag_removal(ctx, tag).removal, random_uuid)
        expire(ctx, Surroundings())

    *crashed, whole = interrupted(disk, work)

    assert len(whole.files) < len(disk.files)
    for left in crashed:
        check_readable(left, rows, at_tag, tmp_path)
        work(MemoryFileIO(left))
        assert left.files == whole.files


def test_power_cut_after_any_operation_of_a_rollback_to_an_expired_snapshot(tmp_path: Path) -> None:
    disk, _, at_tag = written(tmp_path, {"changelog-producer": "lookup"})
    expire(context(MemoryFileIO(disk), {**NEWEST_ALONE, "snapshot.num-retained.min": "3"}), Surroundings())

    def work(io: MemoryFileIO) -> None:
        ctx = context(io, {})
        roll_back(ctx, plan_rollback_to_tag(ctx, "t"))

    *crashed, whole = interrupted(disk, work)

    for left in [*crashed, whole]:
        TableDriver(Table.open(ROOT, io=MemoryFileIO(left)), tmp_path).content()
        work(MemoryFileIO(left))
        table = Table.open(ROOT, io=MemoryFileIO(left))
        assert TableDriver(table, tmp_path).content() == at_tag
        assert (table.snapshots.earliest_id(), table.snapshots.latest_id()) == (3, 3)
        assert left.files == whole.files


@pytest.mark.slow
def test_a_rollback_after_an_interrupted_expiry_never_takes_what_it_goes_back_to(tmp_path: Path) -> None:
    """What the expiry was about to take is taken first; then there is nothing to go back to, and nothing else goes."""
    disk, rows, _ = written(tmp_path, {"changelog-producer": "lookup"})
    refused = 0
    for left in interrupted(disk, _expired)[:-1]:
        ids = Table.open(ROOT, io=MemoryFileIO(left)).snapshots
        for target in range(ids.earliest_id() or 0, ids.latest_id() or 0):
            io = MemoryFileIO(disk_after(left))
            try:
                roll_back(context(io, {}), plan_rollback(context(io, {}), target))
            except CommitConflict:
                refused += 1
                assert TableDriver(Table.open(ROOT, io=io), tmp_path).content() == rows
            else:
                assert Table.open(ROOT, io=io).snapshots.latest_id() == target
                TableDriver(Table.open(ROOT, io=io), tmp_path).content()
    assert refused


def test_a_rollback_stops_when_what_it_goes_back_to_expires_meanwhile(tmp_path: Path) -> None:
    disk, rows, _ = written(tmp_path, {"changelog-producer": "lookup"})
    plan = plan_rollback(context(MemoryFileIO(disk), {}), 2)
    _expired(MemoryFileIO(disk))

    with pytest.raises(CommitConflict, match="snapshot 2 has expired"):
        roll_back(context(MemoryFileIO(disk), {}), plan)

    assert TableDriver(Table.open(ROOT, io=MemoryFileIO(disk)), tmp_path).content() == rows


@pytest.mark.slow
def test_a_new_tag_outlives_the_interrupted_removal_of_one_of_its_name(tmp_path: Path) -> None:
    disk, rows, _ = written(tmp_path, {"changelog-producer": "lookup"})
    _expired(MemoryFileIO(disk))

    def removed(io: MemoryFileIO) -> None:
        ctx = context(io, NEWEST_ALONE)
        carry_out(io, ctx.paths, plan_tag_removal(ctx, TagStore(io, ctx.paths).read("t")).removal, random_uuid)

    renewed = 0
    for left in interrupted(disk, removed):
        io = MemoryFileIO(left)
        ctx = context(io, NEWEST_ALONE)
        tags, newest = TagStore(io, ctx.paths), ctx.snapshots.latest_id()
        if tags.find("t") is None and newest is not None:
            create_tag(tags, "t", ctx.paths.snapshot_file(newest), now=lambda: datetime(2026, 1, 2), retained_ms=None)
            _expired(io)
            assert tags.read("t").snapshot.id == newest
            check_readable(left, rows, rows, tmp_path)
            renewed += 1
    assert renewed > 1


@pytest.mark.parametrize("at", ["planned", "invisible"])
def test_a_tag_made_while_its_snapshot_expires_keeps_its_files_or_is_refused(tmp_path: Path, at: str) -> None:
    """Behind the plan of the expiry; or when the snapshots are gone and their files are still there."""
    disk, _, _ = written(tmp_path, {"changelog-producer": "lookup"})
    io = MemoryFileIO(disk)
    ctx = context(io, NEWEST_ALONE)
    at_tag = TableDriver(Table.open(ROOT, io=io), tmp_path).content(5)
    tags, path = TagStore(io, ctx.paths), ctx.paths.snapshot_file(5)
    text = io.read(path)
    removal = plan_expiry(ctx, Limits.of_snapshots(ctx.options.retention), now_ms()).removal

    if at == "planned":
        create_tag(tags, "new", path, now=lambda: datetime(2026, 1, 2), retained_ms=None)
        carry_out(io, ctx.paths, removal, random_uuid)
        names = all_names(ManifestReader(io, ctx.paths), [tags.read("new").snapshot])
        assert names <= {path.rpartition("/")[2] for path in disk.files}
        roll_back(ctx, plan_rollback_to_tag(ctx, "new"))
        assert TableDriver(Table.open(ROOT, io=io), tmp_path).content() == at_tag
    else:
        carry_out(io, ctx.paths, removal, random_uuid)
        with pytest.raises(ConfigError, match="expired while it was tagged"):
            tags.create("new", text, datetime(2026, 1, 2), None)
        assert tags.find("new") is None


@pytest.mark.parametrize("at", ["planned", "invisible"])
def test_a_branch_made_while_its_tag_is_deleted_keeps_its_files_or_is_refused(tmp_path: Path, at: str) -> None:
    """Behind the plan of the removal; or when the tag is gone and its files are still there."""
    disk, _, _ = written(tmp_path, {"changelog-producer": "lookup"})
    io = MemoryFileIO(disk)
    _expired(io)
    ctx = context(io, NEWEST_ALONE)
    branches, tag = BranchStore(io, ctx.paths), TagStore(io, ctx.paths).read("t")
    removal = plan_tag_removal(ctx, tag).removal
    assert removal.files

    if at == "planned":
        branches.create("b", tag)
        carry_out(io, ctx.paths, removal, random_uuid)
        names = all_names(ManifestReader(io, ctx.paths), branches.roots())
        assert names and names <= {path.rpartition("/")[2] for path in disk.files}
    else:
        carry_out(io, ctx.paths, removal, random_uuid)
        with pytest.raises(ConfigError, match="was deleted while a branch was created from it"):
            branches.create("b", tag)
        assert branches.names() == []


def test_a_damaged_tag_can_be_deleted(tmp_path: Path) -> None:
    """Else nothing would expire any more, and no orphan be found."""
    disk, rows, at_tag = written(tmp_path, {"changelog-producer": "lookup"})
    _expired(MemoryFileIO(disk))
    io = MemoryFileIO(disk)
    ctx = context(io, NEWEST_ALONE)
    tag = TagStore(io, ctx.paths).read("t")
    io.delete(ctx.paths.manifest_file(tag.snapshot.delta_manifest_list))

    carry_out(io, ctx.paths, plan_tag_removal(ctx, tag).removal, random_uuid)

    assert TagStore(io, ctx.paths).find("t") is None
    _expired(io)
    check_readable(disk, rows, at_tag, tmp_path)


def _expired(io: MemoryFileIO) -> None:
    expire(context(io, NEWEST_ALONE), Surroundings())
