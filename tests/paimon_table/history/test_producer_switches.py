"""A table whose changelog producer is changed, beside expiries and tags: nothing is lost, nothing is left behind."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime
from itertools import permutations
from pathlib import Path

import pytest

from paimon_table.history.changelog_expiry import plan_changelog_expiry
from paimon_table.history.retention import Limits
from paimon_table.history.snapshot_names import all_names, changelog_names
from paimon_table.history.tags import TagStore, create_tag
from paimon_table.maintenance.expiration import Surroundings, expire
from paimon_table.maintenance.inspection import inspect, open_despite_damage
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.orphans import find_orphans
from paimon_table.maintenance.tidying import delete_tags
from paimon_table.metadata.manifest import live_entries
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.metadata.snapshot import CommitKind, Snapshot
from paimon_table.options.table_options import CHANGELOG_PRODUCERS
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.surroundings import now_ms
from paimon_table.table import Table
from paimon_table.validation.schema_evolution import SetOption
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.support.plain_values import Plain
from tests.support.table_driver import SnapshotChanges, TableDriver, new_table

LONG_LIVED = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "3",
    "snapshot.time-retained": "1 ms",
    "changelog.num-retained.min": "7",
    "changelog.num-retained.max": "9",
    "changelog.time-retained": "1 ms",
}
LATER = Surroundings(clock_ms=lambda: now_ms() + 60_000)


class Watched:
    """A table, what it held at every moment, and what has to be true of it at every moment."""

    def __init__(self, tmp_path: Path, producer: str) -> None:
        options = {**LONG_LIVED, "changelog-producer": producer}
        table = new_table("/w/t", [("id", "INT"), ("v", "INT")], ["id"], options=options, io=MemoryFileIO())
        self.driver = TableDriver(table, tmp_path / "lookup")
        self._job = Job(WriterEnvironment(str(tmp_path)))
        self._written = 0
        self._changes: dict[int, SnapshotChanges] = {}
        self._contents: dict[int, list[list[Plain]]] = {}

    @property
    def table(self) -> Table:
        return self.driver.table

    def commit(self, full_compact: bool = False) -> None:
        before = self.table.snapshots.latest_id() or 0
        self._written += 1
        rows: list[list[Plain]] = [["+I", key % 5, self._written] for key in range(self._written, self._written + 3)]
        self.driver.commit([*rows, ["-D", (self._written + 4) % 5, 0]], full_compact)
        for number in range(before + 1, (self.table.snapshots.latest_id() or 0) + 1):
            self._contents[number] = self.driver.content(number)
            self._changes |= {change.snapshot_id: change for change in self.driver.changes(number, number)}

    def switch(self, producer: str) -> None:
        self.driver.evolve([SetOption("changelog-producer", producer)])

    def tag(self) -> None:
        newest = self.table.snapshots.latest_id() or 0
        path = self.table.paths.snapshot_file(newest)
        if str(newest) not in self._tags().names():
            create_tag(self._tags(), str(newest), path, now=datetime.now, retained_ms=None)

    def drop_tag(self, position: int) -> None:
        tags = self._tags().all()
        delete_tags(self.table, tags[position % len(tags) :][:1] if tags else [], LATER)

    def expire(self) -> None:
        expire(self.table.context, LATER)

    @property
    def tag_count(self) -> int:
        return len(self._tags().names())

    def leave_alone(self) -> None:
        """Everything expires that was there: then the files are those of the last snapshots and changelogs."""
        self.switch("lookup")
        for _ in range(14):
            self.commit()
            self.expire()
        self.check()
        assert self._names_on_disk() == self._names_that_are_needed()

    def _names_on_disk(self) -> set[str]:
        io, root = self.table.io, self.table.paths.root
        return {name for directory in ("manifest", "bucket-0") for name in io.list_names(f"{root}/{directory}")}

    def _names_that_are_needed(self) -> set[str]:
        """By all snapshots that are left, and by changelogs of which only the changelog files are."""
        reader, store = ManifestReader(self.table.io, self.table.paths), self.table.snapshots
        names = all_names(reader, map(store.read, self._snapshots()))
        for snapshot in [*map(store.read, self._snapshots()), *map(store.find_changelog, store.changelog_ids())]:
            assert snapshot is not None
            names |= changelog_names(reader, snapshot)
        return names

    def _tags(self) -> TagStore:
        return TagStore(self.table.io, self.table.paths)

    def check(self) -> None:
        """What is there can be read as it was read when it was new, and is all there is."""
        kept = sorted({*self.table.snapshots.changelog_ids(), *self._snapshots()})
        assert self.driver.changes() == [self._changes[number] for number in kept if number in self._changes]
        for number in self._snapshots():
            assert self.driver.content(number) == self._contents[number]
        for tag in self._tags().all():
            assert self._is_whole(tag.snapshot)
        assert all(self._has_its_manifests(number) for number in self.table.snapshots.changelog_ids())
        assert [orphan.path for orphan in find_orphans(self.table, self._job, 0).young] == []
        opened = open_despite_damage(self.table.io, self.table.paths.root)
        assert inspect(opened, self._job).damages == ()

    def _has_its_manifests(self, number: int) -> bool:
        """Whether a changelog, as far as its list of what its snapshot changed has been kept, has the manifests too."""
        log, io, path_of = self.table.snapshots.find_changelog(number), self.table.io, self.table.paths.manifest_file
        if log is None or not io.exists(path_of(log.delta_manifest_list)):
            return True
        listed = ManifestReader(io, self.table.paths).list_of(log.delta_manifest_list, log.delta_manifest_list_size)
        return all(io.exists(path_of(manifest.file_name)) for manifest in listed)

    def _is_whole(self, snapshot: Snapshot) -> bool:
        reader = ManifestReader(self.table.io, self.table.paths)
        files = live_entries(reader.entries_in(reader.all_manifests(snapshot)))
        return all(self.table.io.exists(self.table.context.data_file(e.bucket, e.file)) for e in files)

    def _snapshots(self) -> Iterator[int]:
        store = self.table.snapshots
        yield from range(store.earliest_id() or 0, (store.latest_id() or 0) + 1)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), list(permutations(CHANGELOG_PRODUCERS, 2)))
def test_nothing_is_lost_and_nothing_left_when_the_producer_changes(first: str, second: str, tmp_path: Path) -> None:
    watched = Watched(tmp_path, first)
    for producer in (first, second, first):
        watched.switch(producer)
        for number in range(8):
            watched.commit(full_compact=number % 5 == 3)
            watched.expire()
            if number % 2:
                watched.check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(3), 16, 19])
def test_so_it_is_with_tags_and_expiries_at_any_moment(seed: int, tmp_path: Path) -> None:
    drawn = random.Random(seed)
    watched = Watched(tmp_path, drawn.choice(CHANGELOG_PRODUCERS))
    watched.commit()
    for _ in range(50):
        match drawn.choices(["commit", "expire", "tag", "drop", "switch"], [10, 5, 2, 2, 1])[0]:
            case "commit":
                watched.commit(full_compact=drawn.random() < 0.2)
            case "expire":
                watched.expire()
                watched.check()
            case "tag":
                watched.tag()
            case "drop":
                watched.drop_tag(drawn.randrange(10))
                watched.check()
            case "switch":
                watched.switch(drawn.choice(CHANGELOG_PRODUCERS))
    while watched.tag_count:
        watched.drop_tag(0)
    watched.leave_alone()


@pytest.mark.parametrize("producer", ["none", "input"])
def test_changelogs_beside_snapshots_that_are_there_do_not_expire(tmp_path: Path, producer: str) -> None:
    """An expiry that was killed while it gave way to a rollback has left them; the snapshots hold their files."""
    watched = Watched(tmp_path, producer)
    for _ in range(5):
        watched.commit()
    table = watched.table
    for number in (1, 2, 3):
        table.io.write(table.paths.changelog_file(number), table.io.read(table.paths.snapshot_file(number)))
    assert plan_changelog_expiry(table.context, Limits(1, 1, 0, 100), LATER.clock_ms()).is_empty


@pytest.mark.slow
def test_a_missing_file_of_a_changelog_without_producer_is_found(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "none")
    for _ in range(9):
        watched.commit(full_compact=True)
        watched.expire()
    table, job = watched.table, Job(WriterEnvironment(str(tmp_path)))
    reader, logs = (
        ManifestReader(table.io, table.paths),
        map(table.snapshots.find_changelog, table.snapshots.changelog_ids()),
    )
    log = next(log for log in logs if log is not None and log.commit_kind is CommitKind.APPEND)
    (entry,) = reader.delta_entries(log)
    path = table.paths.data_file(table.context.bucket_dir(entry.bucket), entry.file)
    table.io.delete(path)
    (damage,) = inspect(open_despite_damage(table.io, table.paths.root), job).damages
    assert (damage.path, damage.what) == (path, "is missing")
    assert damage.needs.others == [f"changelog {log.id}"]
