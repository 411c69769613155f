"""Expiry of snapshots: plans which snapshots and files to remove.

Implements Paimon's expiry. A data file that snapshot S deletes is removed once S-1 has expired, unless S adds it again
on another level or a tag or branch needs it. Changelog files and metadata are removed with their snapshot. If
changelogs outlive their snapshots, ``changelog/`` names the files that they need, and these stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from paimon_table.errors import CorruptFile
from paimon_table.history.claims import Claims, claimed, no_claims
from paimon_table.history.consumers import ConsumerStore
from paimon_table.history.held import Held, HeldNames
from paimon_table.history.removal import Removal, relative
from paimon_table.history.retention import End, Keeper, Limits, end_of_snapshots
from paimon_table.history.snapshot_names import metadata_names
from paimon_table.metadata.changelog_origin import has_been_without_producer, may_need_added_files
from paimon_table.metadata.data_file import FileSource
from paimon_table.metadata.manifest import ADD, ManifestEntry
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.metadata.snapshot import Snapshot
from paimon_table.metadata.table_context import TableContext

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Expiry:
    """The files that an expiry removes."""

    removal: Removal = field(default_factory=Removal)
    size_bytes: int = 0
    """The total size of its data and changelog files."""
    keeper: Keeper | None = None
    """Who keeps snapshots that would expire otherwise."""

    @property
    def is_empty(self) -> bool:
        return not self.removal.snapshots and not self.removal.changelogs


def plan_expiry(
    ctx: TableContext, limits: Limits, now_ms: int, claims: Claims = no_claims, names: HeldNames | None = None
) -> Expiry:
    """The expiry that is due; reads only. Raises CorruptFile if the needs of a tag, branch or consumer are unknown.

    ``names`` saves repeated expiries of a table from reading the same files again.
    """
    store = ctx.snapshots
    latest, earliest = store.latest_id(), store.earliest_id()
    if latest is None or earliest is None:
        return Expiry()

    def time_of(snapshot_id: int) -> int | None:
        found = store.find(snapshot_id)
        return None if found is None else found.time_ms

    end = end_of_snapshots(earliest, latest, limits, _consumers(ctx), time_of, now_ms)
    if end.id <= earliest:
        return Expiry(keeper=end.keeper)
    over = [snapshot for i in range(earliest, end.id) if (snapshot := store.find(i)) is not None]
    end = end.before(claimed(over, _from_newest_to(ctx, end.id), claims, now_ms))
    over = [snapshot for snapshot in over if snapshot.id < end.id]
    first_left = store.find(end.id)
    if not over or first_left is None:
        return Expiry(keeper=end.keeper)
    try:
        return _planned(ctx, over, first_left, end, names)
    except CorruptFile:
        if store.find(end.id) is not None:
            raise
        return Expiry(keeper=end.keeper)  # another process is expiring the table


def _consumers(ctx: TableContext) -> list[Keeper]:
    if ctx.options.retention.consumer_changelog_only:
        return []
    return consumers_of(ctx)


def consumers_of(ctx: TableContext) -> list[Keeper]:
    """The consumers, as keepers of the snapshots that they have not read yet."""
    return [
        Keeper(c.next_snapshot, f"consumer {c.name!r} reads it next") for c in ConsumerStore(ctx.io, ctx.paths).all()
    ]


def _from_newest_to(ctx: TableContext, end_id: int) -> Iterator[Snapshot]:
    for snapshot in ctx.snapshots.newest_first():
        if snapshot.id < end_id:
            return
        yield snapshot


def _planned(
    ctx: TableContext, over: Sequence[Snapshot], first_left: Snapshot, end: End, names: HeldNames | None
) -> Expiry:
    held = Held.of(ctx, names)
    files = FilesToRemove(ctx)
    outlives = ctx.options.retention.outlives_snapshots
    keeps_added = outlives and may_need_added_files(ctx, _oldest(ctx, over))
    # Files that the first one deletes may have stayed when it was the earliest, because changelogs needed them then.
    again = over[:1] if outlives and not keeps_added and has_been_without_producer(ctx) else ()
    for snapshot in (*again, *over[1:], first_left):
        # Proof: the file is live in no snapshot from this one on, and in no remaining earlier one.
        needed = held.files_when_deleted_by(snapshot.id) | held.files_of_branches()
        files.add_deleted(snapshot, needed, keeps_appended=keeps_added)
    if not outlives:
        for snapshot in over:
            files.add_changelog(snapshot, held.files_of_branches())
    kept = metadata_names(files.reader, first_left) | held.metadata_of_tags(over[0].id, end.id)
    metadata = MetadataToRemove(ctx, kept | held.files_of_branches())
    for snapshot in over:
        if not keeps_added:
            metadata.add_lists(snapshot)
        if not outlives:
            metadata.add_changelog_list(snapshot)
        metadata.add_index_and_statistics(snapshot)
    removal = Removal(
        snapshots=tuple(snapshot.id for snapshot in over),
        tags_seen=tuple(tag.name for tag in held.tags),
        earliest=end.id,
        witness=first_left.delta_manifest_list,
        keeps_changelogs=outlives,
        files=tuple(files.paths),
        metadata=tuple(metadata.paths),
        directories=tuple(files.directories) if ctx.options.retention.clean_empty_directories else (),
    )
    return Expiry(removal, files.size_bytes, end.keeper)


def _oldest(ctx: TableContext, over: Sequence[Snapshot]) -> list[Snapshot]:
    """The first remaining long-lived changelog, and the snapshots that become long-lived changelogs."""
    first = next((log for i in ctx.snapshots.changelog_ids()[:1] if (log := ctx.snapshots.find_changelog(i))), None)
    return [*over, *(() if first is None else (first,))]


@dataclass(slots=True)
class FilesToRemove:
    """Data and changelog files to remove, with their extra files; paths below the table."""

    ctx: TableContext
    paths: dict[str, None] = field(default_factory=dict)
    directories: dict[str, None] = field(default_factory=dict)
    size_bytes: int = 0

    @property
    def reader(self) -> ManifestReader:
        return ManifestReader(self.ctx.io, self.ctx.paths)

    def add_deleted(self, snapshot: Snapshot, needed: Collection[str], *, keeps_appended: bool) -> None:
        """Add the files that the snapshot deletes and does not add again; with ``keeps_appended`` no flushed files."""
        entries = _readable(lambda: self.reader.delta_entries(snapshot))
        added = {entry.file.file_name for entry in entries if entry.kind == ADD}
        for entry in entries:
            if entry.kind == ADD or entry.file.file_name in added or entry.file.file_name in needed:
                continue
            if not keeps_appended or entry.file.file_source == FileSource.COMPACT:
                self.add(entry)

    def add_changelog(self, snapshot: Snapshot, needed: Collection[str]) -> None:
        """The changelog files of the snapshot."""
        for entry in _readable(lambda: self.reader.changelog_entries(snapshot)):
            if entry.file.file_name not in needed:
                self.add(entry)

    def add(self, entry: ManifestEntry) -> None:
        """An unneeded data file, with its extra files."""
        directory = self.ctx.bucket_dir(entry.bucket)
        path = self.ctx.data_file(entry.bucket, entry.file)
        for one in (path, *self.ctx.paths.extra_files(directory, entry.file)):
            self.paths[relative(self.ctx.paths, one)] = None
        self.directories[relative(self.ctx.paths, directory)] = None
        self.size_bytes += entry.file.file_size_bytes


@dataclass(slots=True)
class MetadataToRemove:
    """Manifest lists, manifests, index files and statistics to remove; ``kept`` are the names that stay."""

    ctx: TableContext
    kept: Collection[str]
    paths: dict[str, None] = field(default_factory=dict)

    def add_list(self, name: str, size_bytes: int | None = None) -> None:
        """A manifest list with its manifests."""
        reader = ManifestReader(self.ctx.io, self.ctx.paths)
        for manifest in _readable(lambda: reader.list_of(name, size_bytes)):
            self._add(manifest.file_name, self.ctx.paths.manifest_file(manifest.file_name))
        self._add(name, self.ctx.paths.manifest_file(name))

    def add_lists(self, snapshot: Snapshot) -> None:
        """The two lists of a snapshot that name its data files."""
        self.add_list(snapshot.base_manifest_list, snapshot.base_manifest_list_size)
        self.add_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)

    def add_changelog_list(self, snapshot: Snapshot) -> None:
        if snapshot.changelog_manifest_list is not None:
            self.add_list(snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size)

    def add_index_and_statistics(self, snapshot: Snapshot) -> None:
        """Add the index manifest of the snapshot with its files, and its statistics, unless something else needs
        them."""
        paths = self.ctx.paths
        if snapshot.index_manifest is not None:
            for entry in _readable(lambda: ManifestReader(self.ctx.io, paths).index_entries(snapshot)):
                self._add(entry.file.file_name, paths.index_file(entry.file.file_name))
            self._add(snapshot.index_manifest, paths.manifest_file(snapshot.index_manifest))
        if snapshot.statistics is not None:
            self._add(snapshot.statistics, paths.statistics_file(snapshot.statistics))

    def _add(self, name: str, path: str) -> None:
        if name not in self.kept:
            self.paths[relative(self.ctx.paths, path)] = None


def _readable(read: Callable[[], Sequence[T]]) -> Sequence[T]:
    """The content of a list of files to remove; empty if it is missing or damaged, so that less is removed."""
    with suppress(CorruptFile):
        return read()
    return ()
