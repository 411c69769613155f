"""Which files count as left behind, and that no other ever goes."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from paimon_table.errors import ConfigError, CorruptFile
from paimon_table.history.branches import BranchStore
from paimon_table.history.rollback import plan_rollback_to_tag, roll_back
from paimon_table.history.tags import TagStore, create_tag
from paimon_table.maintenance.expiration import Surroundings, expire
from paimon_table.maintenance.inspection import inspect, open_despite_damage
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.orphans import Orphans, check_age, find_orphans, remove_orphans
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.storage.memory_io import MemoryFileIO, SimulatedCrash
from paimon_table.surroundings import now_ms
from paimon_table.table import Table
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.support.job_steps import Steps
from tests.support.table_driver import TableDriver, new_table

DAY_MS = 24 * 3_600_000
COLUMNS = [("k", "INT"), ("v", "STRING"), ("dt", "STRING")]
OPTIONS = {
    "bucket": "2",
    "changelog-producer": "lookup",
    "deletion-vectors.enabled": "true",
    "file-index.bloom-filter.columns": "v",
    "file-index.in-manifest-threshold": "1 b",
    "data-file.prefix": "rows-",
}


def made(tmp_path: Path) -> TableDriver:
    """Deletion vectors, changelogs and files with indexes beside them, in partitions; all of it two days old."""
    driver = TableDriver(new_table(tmp_path / "t", COLUMNS, ["dt", "k"], ["dt"], OPTIONS), tmp_path / "lookup")
    for commit in range(4):
        driver.commit([["+I", key, f"v{commit}", dt] for key in range(commit, 20) for dt in ("a", "b=1/é")])
    age(tmp_path / "t")
    return driver


def age(root: Path, days: float = 2) -> None:
    then = now_ms() / 1000 - days * 24 * 3600
    for path in root.rglob("*"):
        os.utime(path, (then, then))


def job(tmp_path: Path, at: Callable[[int], None] = lambda _: None) -> Job:
    return Job(WriterEnvironment(str(tmp_path / "lookup")), Steps(at))


def removed(table: Table, tmp_path: Path) -> list[str]:
    found = find_orphans(table, job(tmp_path), DAY_MS)
    gone = remove_orphans(table, found, job(tmp_path))
    return sorted(orphan.path.removeprefix(f"{table.paths.root}/") for orphan in gone)


def files_of(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def left_behind(root: Path) -> list[str]:
    """One file of each kind that writers may leave, in every place."""
    bucket = sorted(path for path in root.rglob("bucket-0"))[0].relative_to(root)
    one = uuid.uuid4()
    names = [
        f"{bucket}/rows-{one}-0.parquet",
        f"{bucket}/data-{one}-0.orc",  # under an older schema
        f"{bucket}/data--u-{one}-s-0-w-{one}-0.avro",
        f"{bucket}/changelog-{one}-1.zstd.json",
        f"{bucket}/rows-{one}-0.parquet.index",
        f"{bucket}/data-{one}-3.blob",
        f"{bucket}/index-{one}-0",
        f"manifest/manifest-{one}-0",
        f"manifest/manifest-list-{one}-1",
        f"manifest/index-manifest-{one}-2",
        f"manifest/.manifest-{one}-0.{one}.tmp",
        f"index/index-{one}-0",
        f"index/index-{one}-0a1b2c3d-of-4",
        f"statistics/stat-{one}-0",
        f"snapshot/.snapshot-9.{one}.tmp",
        f"schema/.schema-1.{one}.tmp",
        f".tidemark-probe-{one}",
    ]
    for name in names:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"left")
    age(root)
    return sorted(names)


@pytest.mark.slow
def test_what_was_left_behind_goes_and_nothing_else(tmp_path: Path) -> None:
    driver = made(tmp_path)
    root = tmp_path / "t"
    before, content, changes = files_of(root), driver.content(), driver.changes()
    assert {name.split("/")[0] for name in before} >= {"index", "manifest", "snapshot", "schema"}
    assert any(name.endswith(".index") for name in before)
    assert removed(driver.table, tmp_path) == []
    left = left_behind(root)
    found = find_orphans(driver.table, job(tmp_path), DAY_MS)
    assert [orphan.size_bytes for orphan in found.files] == [4] * len(left)
    assert files_of(root) == before | set(left)
    assert removed(driver.table, tmp_path) == left
    assert files_of(root) == before
    reopened = TableDriver(Table.open(str(root)), tmp_path / "lookup2")
    assert (reopened.content(), reopened.changes()) == (content, changes)


@pytest.mark.slow
def test_younger_files_stay(tmp_path: Path) -> None:
    driver = made(tmp_path)
    left = left_behind(tmp_path / "t")
    age(tmp_path / "t", days=0.9)
    found = find_orphans(driver.table, job(tmp_path), DAY_MS)
    assert (found.files, len(found.young)) == ((), len(left))


@pytest.mark.slow
def test_names_of_others_are_told_and_stay(tmp_path: Path) -> None:
    driver = made(tmp_path)
    root = tmp_path / "t"
    bucket = sorted(root.rglob("bucket-0"))[0]
    strange = [bucket / "notes.txt", bucket / "rows-1.parquet", root / "snapshot/snapshot-x", root / "manifest/m.avro"]
    for path in strange:
        path.write_bytes(b"?")
    for directory in (root / "backup", root / "dt=a/other", root / "bucket-0"):
        directory.mkdir()
        (directory / f"data-{uuid.uuid4()}-0.parquet").write_bytes(b"?")
    age(root)
    before = files_of(root)
    found = find_orphans(driver.table, job(tmp_path), DAY_MS)
    told = {str(Path(path).relative_to(root)) for path in found.unknown}
    assert told == {str(path.relative_to(root)) for path in strange} | {"backup", "dt=a/other", "bucket-0"}
    assert removed(driver.table, tmp_path) == []
    assert files_of(root) == before


@pytest.mark.slow
def test_tags_branches_and_changelogs_hold_their_files(tmp_path: Path) -> None:
    """All snapshots have expired and left their files: what somebody else names stays, the rest goes."""
    driver = made(tmp_path)
    root, table = tmp_path / "t", driver.table
    for directory in ("tag", "changelog", "branch/branch-b/snapshot", "branch/branch-b/tag"):
        (root / directory).mkdir(parents=True)
    holders = {2: "tag/tag-x", 3: "branch/branch-b/tag/tag-y", 6: "branch/branch-b/snapshot/snapshot-6"}
    contents = {number: driver.content(number) for number in holders}
    entries = ManifestReader(table.io, table.paths).changelog_entries(table.snapshots.read(4))
    changelog = {entry.file.file_name for entry in entries}
    for number, holder in {**holders, 4: "changelog/changelog-4"}.items():
        shutil.copy(root / f"snapshot/snapshot-{number}", root / holder)
    for number in range(1, 9):
        (root / f"snapshot/snapshot-{number}").unlink()
    age(root)
    assert removed(table, tmp_path)
    assert changelog and changelog <= {Path(name).name for name in files_of(root)}
    for number, holder in holders.items():
        shutil.copy(root / holder, root / f"snapshot/snapshot-{number}")
        assert driver.content(number) == contents[number]


@pytest.mark.slow
def test_what_is_published_meanwhile_stays(tmp_path: Path) -> None:
    """A commit that took two days publishes its files between the search and the removal."""
    driver = made(tmp_path)
    root = tmp_path / "t"
    hidden = root / "snapshot/snapshot-8"
    text = hidden.read_bytes()
    hidden.unlink()
    (root / "snapshot/LATEST").write_text("7")
    found = find_orphans(driver.table, job(tmp_path), DAY_MS)
    assert len(found.files) > 2
    hidden.write_bytes(text)
    assert remove_orphans(driver.table, found, job(tmp_path)) == ()
    assert TableDriver(Table.open(str(root)), tmp_path / "lookup2").content(8) == driver.content(8)


@pytest.mark.slow
def test_snapshots_that_appear_while_references_are_read_count(tmp_path: Path) -> None:
    driver = made(tmp_path)
    hidden = tmp_path / "t/snapshot/snapshot-8"
    text = hidden.read_bytes()
    hidden.unlink()

    def publish(step: int) -> None:
        if step == 3:
            hidden.write_bytes(text)

    assert find_orphans(driver.table, job(tmp_path, publish), DAY_MS).files == ()


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["snapshot/snapshot-3", "manifest/manifest-list-*", "manifest/index-manifest-*"])
def test_nothing_goes_where_a_reference_cannot_be_read(tmp_path: Path, pattern: str) -> None:
    driver = made(tmp_path)
    left_behind(tmp_path / "t")
    damaged = sorted(p for p in (tmp_path / "t").glob(pattern) if p.read_bytes() != b"left")[0]
    damaged.write_bytes(damaged.read_bytes()[:40])
    before = files_of(tmp_path / "t")
    with pytest.raises(CorruptFile, match=r"cannot tell to which files snapshot .* refers"):
        find_orphans(driver.table, job(tmp_path), DAY_MS)
    assert files_of(tmp_path / "t") == before


@pytest.mark.slow
def test_a_snapshot_that_expires_meanwhile_is_no_damage(tmp_path: Path) -> None:
    driver = made(tmp_path)
    root = tmp_path / "t"

    def expire(step: int) -> None:
        if step == 0:
            (root / "snapshot/snapshot-2").unlink()

    found = find_orphans(driver.table, job(tmp_path, expire), DAY_MS)
    assert all("/snapshot/" not in orphan.path for orphan in found.files)


def test_less_than_a_day_takes_a_promise() -> None:
    with pytest.raises(ConfigError, match="at least 1d"):
        check_age(DAY_MS - 1, nobody_writes=False)
    check_age(0, nobody_writes=True)


@pytest.mark.slow
def test_a_removal_that_dies_is_done_by_the_next_one(tmp_path: Path) -> None:
    io = MemoryFileIO()
    driver = TableDriver(new_table("/w/t", COLUMNS[:2], ["k"], io=io), tmp_path / "lookup")
    driver.commit([["+I", 1, "a"]])
    whole = dict(io.disk.files)
    for number in range(3):
        io.disk.files[f"/w/t/bucket-0/data-{uuid.uuid4()}-{number}.parquet"] = b"left"
    orphaned = dict(io.disk.files)

    def run(io: MemoryFileIO) -> Orphans:
        table = Table.open("/w/t", io=io)
        work = job(tmp_path)
        found = find_orphans(table, replace(work, environment=replace(work.environment, clock_ms=now_ms)), DAY_MS)
        remove_orphans(table, found, work)
        return found

    for crash_after in range(1, 200):
        io.disk.files = dict(orphaned)
        io.disk.modified_ms.clear()
        dying = MemoryFileIO(io.disk, crash_after=crash_after)
        try:
            run(dying)
        except SimulatedCrash:
            assert set(whole) <= set(io.disk.files)
            run(MemoryFileIO(io.disk))
            assert io.disk.files == whole
        else:
            assert crash_after > 20
            return
    raise AssertionError("it never ends")


@pytest.mark.slow
@pytest.mark.parametrize("place", ["dt=z", "dt=a/bucket-77"])
def test_nothing_goes_behind_a_link(tmp_path: Path, place: str) -> None:
    """Here to the directory of another table, whose files nobody names in this one."""
    driver = made(tmp_path)
    (tmp_path / "other").mkdir()
    made(tmp_path / "other")
    before = files_of(tmp_path / "other/t")
    link = tmp_path / "t" / place
    target = sorted((tmp_path / "other/t").glob("dt=*/bucket-0" if "bucket" in place else "dt=*"))[0]
    link.symlink_to(target, target_is_directory=True)

    assert find_orphans(driver.table, job(tmp_path), DAY_MS).unknown == (str(link),)
    assert removed(driver.table, tmp_path) == []
    assert files_of(tmp_path / "other/t") == before


@pytest.mark.slow
def test_a_table_within_the_directory_of_another_keeps_its_files(tmp_path: Path) -> None:
    driver = made(tmp_path)
    inner = TableDriver(new_table(tmp_path / "t/dt=inner", COLUMNS[:2], ["k"]), tmp_path / "lookup2")
    inner.commit([["+I", 1, "a"]])
    age(tmp_path / "t")

    assert find_orphans(driver.table, job(tmp_path), DAY_MS).unknown == (str(tmp_path / "t/dt=inner"),)
    assert removed(driver.table, tmp_path) == []
    assert inner.content() == [[1, "a"]]


def test_a_tag_does_not_hold_the_changelog_of_its_snapshot(tmp_path: Path) -> None:
    """It went with the snapshot: that is no damage, nor in a branch that begins at the tag, and all work goes on."""
    options = {"changelog-producer": "input", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    driver = TableDriver(new_table(tmp_path / "t", COLUMNS[:2], ["k"], options=options), tmp_path / "lookup")
    for commit in range(4):
        driver.commit([["+I", key, f"v{commit}"] for key in range(3)])
    table, at_tag = driver.table, driver.content(2)
    tags, branches = TagStore(table.io, table.paths), BranchStore(table.io, table.paths)
    create_tag(tags, "t", table.paths.snapshot_file(2), now=datetime.now, retained_ms=None)
    expire(table.context, Surroundings())
    named = tags.read("t").snapshot.changelog_manifest_list
    assert named is not None and not table.io.exists(table.paths.manifest_file(named))

    for _ in ("tag", "branch"):
        assert find_orphans(table, job(tmp_path), -DAY_MS).files == ()
        assert inspect(open_despite_damage(table.io, table.paths.root), job(tmp_path)).damages == ()
        driver.commit([["+I", 1, "more"]])
        expire(table.context, Surroundings())
        assert table.snapshots.earliest_id() == table.snapshots.latest_id()
        if not branches.names():
            branches.create("b", tags.read("t"))
    roll_back(table.context, plan_rollback_to_tag(table.context, "t"))
    assert driver.content(2) == at_tag
