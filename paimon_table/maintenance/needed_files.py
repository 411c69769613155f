"""Finds the files that the holders of a table need, by reading all of their metadata once, even if it is damaged."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from paimon_table.errors import TidemarkError
from paimon_table.maintenance.damage import Damage, Needs
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.changelog_origin import NO_PRODUCER, producer_of
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.holders import Holder, Holding
from paimon_table.metadata.manifest import ADD, Identity, ManifestEntry, ManifestFileMeta, live_entries
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.metadata.snapshot import CommitKind, Snapshot
from paimon_table.metadata.table_context import TableContext


@dataclass(slots=True)
class NeededFile:
    """A data, changelog or index file, as the metadata describes it."""

    path: str
    size_bytes: int | None
    """None: not in the metadata."""
    bucket: BucketId
    needs: Needs = field(default_factory=Needs)


@dataclass(slots=True)
class _Chain:
    """The live files of one branch, followed from snapshot to snapshot."""

    branch: str | None
    at: int
    live: dict[Identity, tuple[str, ...]] = field(default_factory=dict)
    """The paths of each live file and its extra files."""
    since: dict[str, int] = field(default_factory=dict)
    """By path, the snapshot from which on the file is live."""


class NeededFiles:
    """Collects the files that holders need. Holders must arrive branch by branch, with rising snapshots."""

    def __init__(self, ctx: TableContext) -> None:
        self.files: dict[str, NeededFile] = {}
        """By path."""
        self.damages: dict[str, Damage] = {}
        """The damage of metadata files, by path."""
        self._ctx = ctx
        self._reader = ManifestReader(ctx.io, ctx.paths)
        self._checked: set[str] = set()
        self._broken: set[str] = set()
        self._chain: _Chain | None = None

    def note(self, path: str, what: str, holder: Holder | None = None) -> None:
        """Note the damage of a metadata file that ``holder`` needs."""
        damage = self.damages.setdefault(path, Damage(path, what))
        if holder is not None:
            damage.needs.add(holder)

    def add(self, holder: Holder, snapshot: Snapshot) -> None:
        """Add the files that ``holder`` needs."""
        changelog = snapshot.changelog_manifest_list
        is_there = not holder.may_lack_changelog or self._is_there(changelog)
        if changelog is not None and is_there:
            manifests = self._manifests(holder, changelog, snapshot.changelog_manifest_list_size)
            for entry in self._entries(holder, manifests or ()) or ():
                self._need_all(holder, entry)
        if holder.kind is Holding.CHANGELOG:
            self._add_appended(holder, snapshot)
            return
        base = self._manifests(holder, snapshot.base_manifest_list, snapshot.base_manifest_list_size)
        delta = self._manifests(holder, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
        if holder.kind is Holding.SNAPSHOT:
            self._follow(holder, base, delta)
        else:
            for entry in self._live_entries(holder, base, delta) or ():
                self._need_all(holder, entry)
        self._add_index(holder, snapshot)
        self._check_statistics(holder, snapshot)

    def _add_appended(self, holder: Holder, snapshot: Snapshot) -> None:
        """Add the files that the snapshot added, for a long-lived changelog without a changelog producer.

        If the table got a producer later, other writers remove the lists, and the files are not needed.
        """
        is_append = snapshot.commit_kind is CommitKind.APPEND and producer_of(self._ctx, snapshot) == NO_PRODUCER
        if holder.branch is None and is_append and self._is_there(snapshot.delta_manifest_list):
            manifests = self._manifests(holder, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
            for entry in self._entries(holder, manifests or ()) or ():
                if entry.kind == ADD:
                    self._need_all(holder, entry)

    def _is_there(self, manifest_list: str | None) -> bool:
        return manifest_list is not None and self._ctx.io.exists(self._ctx.paths.manifest_file(manifest_list))

    def end_chain(self) -> None:
        """End the chain: the next snapshot is not the successor, or its files are unknown."""
        chain, self._chain = self._chain, None
        if chain is not None:
            for path, first in chain.since.items():
                self.files[path].needs.add_span(chain.branch, first, chain.at)

    # ------------------------------------------------------------ one snapshot

    def _follow(
        self, holder: Holder, base: tuple[ManifestFileMeta, ...] | None, delta: tuple[ManifestFileMeta, ...] | None
    ) -> None:
        number, chain = int(holder.name), self._chain
        if chain is not None and (chain.branch != holder.branch or chain.at != number - 1):
            self.end_chain()
            chain = None
        if chain is None:
            entries = self._live_entries(holder, base, delta)
            if entries is not None:
                self._chain = _Chain(holder.branch, number)
                self._advance(self._chain, number, entries)
            return
        self._entries(holder, [m for m in base or () if m.file_name not in self._checked])
        changes = None if delta is None else self._entries(holder, delta)
        if changes is None:
            self.end_chain()
        else:
            self._advance(chain, number, changes)

    def _advance(self, chain: _Chain, number: int, entries: Iterable[ManifestEntry]) -> None:
        gone: set[str] = set()
        come: set[str] = set()
        for entry in entries:
            if entry.kind == ADD:
                paths = chain.live[entry.identity] = self._paths(entry)
                come.update(paths)
            else:
                gone.update(chain.live.pop(entry.identity, ()))
        for path in gone - come:
            self.files[path].needs.add_span(chain.branch, chain.since.pop(path), number - 1)
        for path in come:
            chain.since.setdefault(path, number)
        chain.at = number

    def _live_entries(
        self, holder: Holder, base: tuple[ManifestFileMeta, ...] | None, delta: tuple[ManifestFileMeta, ...] | None
    ) -> tuple[ManifestEntry, ...] | None:
        if base is None or delta is None:
            return None
        entries = self._entries(holder, (*base, *delta))
        return None if entries is None else live_entries(entries)

    # ------------------------------------------------------------ metadata files

    def _manifests(self, holder: Holder, name: str, size_bytes: int | None) -> tuple[ManifestFileMeta, ...] | None:
        try:
            return self._reader.list_of(name, size_bytes)
        except (TidemarkError, OSError) as error:
            self._note_file(holder, name, error)
            return None

    def _entries(self, holder: Holder, manifests: Iterable[ManifestFileMeta]) -> list[ManifestEntry] | None:
        """All entries; None if a manifest cannot be read."""
        manifests = list(manifests)
        known = [m.file_name for m in manifests if m.file_name in self._broken]
        for name in known:
            self._note_file(holder, name, None)
        entries: list[ManifestEntry] = []
        for manifest in manifests if not known else ():
            try:
                entries += self._reader.entries_of(manifest)
                self._checked.add(manifest.file_name)
            except (TidemarkError, OSError) as error:
                self._broken.add(manifest.file_name)
                self._note_file(holder, manifest.file_name, error)
                known.append(manifest.file_name)
        return None if known else entries

    def _note_file(self, holder: Holder, name: str, error: Exception | None) -> None:
        path = self._ctx.paths.manifest_file(name)
        if error is None or path in self.damages:
            self.note(path, "", holder)
        elif not self._ctx.io.exists(path):
            self.note(path, "is missing", holder)
        else:
            self.note(path, f"is not readable: {error}", holder)

    def _add_index(self, holder: Holder, snapshot: Snapshot) -> None:
        if snapshot.index_manifest is None:
            return
        try:
            entries = self._reader.index_entries(snapshot)
        except (TidemarkError, OSError) as error:
            self._note_file(holder, snapshot.index_manifest, error)
            return
        for entry in entries:
            path = entry.file.external_path or self._ctx.paths.index_file(entry.file.file_name)
            self._file(path, entry.file.file_size_bytes, entry.bucket).needs.add(holder)

    def _check_statistics(self, holder: Holder, snapshot: Snapshot) -> None:
        if snapshot.statistics is None:
            return
        path = f"{self._ctx.paths.root}/statistics/{snapshot.statistics}"
        if path in self.damages or path in self._checked:
            damage = self.damages.get(path)
            if damage is not None:
                damage.needs.add(holder)
            return
        try:
            json.loads(self._ctx.io.read(path))
            self._checked.add(path)
        except FileNotFoundError:
            self.note(path, "is missing", holder)
        except (OSError, ValueError) as error:
            self.note(path, f"is not readable: {error}", holder)

    # ------------------------------------------------------------ files

    def _need_all(self, holder: Holder, entry: ManifestEntry) -> None:
        for path in self._paths(entry):
            self.files[path].needs.add(holder)

    def _paths(self, entry: ManifestEntry) -> tuple[str, ...]:
        """The paths of an entry's file and its extra files; adds them to ``files``."""
        file: DataFileMeta = entry.file
        directory = self._ctx.bucket_dir(entry.bucket)
        path = self._ctx.paths.data_file(directory, file)
        extras = self._ctx.paths.extra_files(directory, file)
        self._file(path, file.file_size_bytes, entry.bucket)
        for extra in extras:
            self._file(extra, None, entry.bucket)
        return (path, *extras)

    def _file(self, path: str, size_bytes: int | None, bucket: BucketId) -> NeededFile:
        return self.files.setdefault(path, NeededFile(path, size_bytes, bucket))
