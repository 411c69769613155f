"""Reading and writing the files of ``manifest/``.

Implements the naming and rolling of manifests. A reader has no cache. A draft collects the files of one commit attempt,
which are written, synced and, after a lost race, deleted together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from paimon_table.errors import CorruptFile
from paimon_table.metadata.entry_row import EntryRow
from paimon_table.metadata.index_manifest import IndexEntry, decode_index_manifest, encode_index_manifest
from paimon_table.metadata.manifest import ManifestEntry, ManifestFileMeta, summarize
from paimon_table.metadata.manifest_codec import (
    StoredEntry,
    decode_manifest,
    decode_manifest_list,
    decode_rows,
    decode_stored,
    encode_manifest_list,
    encode_manifests,
    stored_entry,
)
from paimon_table.metadata.paths import TablePaths
from paimon_table.metadata.snapshot import Snapshot
from paimon_table.options.table_options import TableOptions
from paimon_table.storage.file_io import FileIO
from paimon_table.surroundings import many_values
from paimon_table.types import DataType


@dataclass(frozen=True, slots=True)
class ManifestReader:
    """Reads manifests and manifest lists of one table; raises CorruptFile if a named file is missing or unreadable."""

    io: FileIO
    paths: TablePaths

    def list_of(self, name: str, size_bytes: int | None = None) -> tuple[ManifestFileMeta, ...]:
        """The manifests that a manifest list names; ``size_bytes`` is the list's size, if the snapshot states it."""
        return decode_manifest_list(self._bytes(name, size_bytes), self.paths.manifest_file(name))

    def entries_of(self, manifest: ManifestFileMeta) -> tuple[ManifestEntry, ...]:
        """The entries of a manifest."""
        path = self.paths.manifest_file(manifest.file_name)
        with many_values():
            return decode_manifest(self._content(manifest), path, _count(manifest))

    def rows_of(self, manifest: ManifestFileMeta) -> list[EntryRow]:
        """The same entries as rows, for callers that do not need every entry's values."""
        path = self.paths.manifest_file(manifest.file_name)
        with many_values():
            return decode_rows(self._content(manifest), path, _count(manifest))

    def stored_entries_of(self, manifest: ManifestFileMeta) -> list[StoredEntry]:
        """The entries of a manifest, to copy into another one."""
        path = self.paths.manifest_file(manifest.file_name)
        with many_values():
            return decode_stored(self._content(manifest), path, _count(manifest))

    def entries_in(self, manifests: Iterable[ManifestFileMeta]) -> list[ManifestEntry]:
        with many_values():
            return [entry for manifest in manifests for entry in self.entries_of(manifest)]

    def all_manifests(self, snapshot: Snapshot) -> tuple[ManifestFileMeta, ...]:
        """The base and then the delta manifests, which together have the snapshot's live files."""
        base = self.list_of(snapshot.base_manifest_list, snapshot.base_manifest_list_size)
        return base + self.list_of(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)

    def delta_entries(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """The changes of the snapshot: ADD and DELETE entries."""
        return self.entries_in(self.list_of(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size))

    def changelog_entries(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """The snapshot's changelog files, in listed order; empty if it has none."""
        if snapshot.changelog_manifest_list is None:
            return []
        return self.entries_in(self.list_of(snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size))

    def index_entries(self, snapshot: Snapshot) -> tuple[IndexEntry, ...]:
        """All index files of the snapshot."""
        name = snapshot.index_manifest
        return () if name is None else decode_index_manifest(self._bytes(name), self.paths.manifest_file(name))

    def _content(self, manifest: ManifestFileMeta) -> bytes:
        return self._bytes(manifest.file_name, manifest.file_size_bytes)

    def _bytes(self, name: str, size_bytes: int | None = None) -> bytes:
        path = self.paths.manifest_file(name)
        try:
            data = self.io.read(path)
        except ValueError as error:
            raise CorruptFile(
                f"a snapshot or manifest list of {self.paths.root} names {name!r}, which is not a file name: restore it"
            ) from error
        except FileNotFoundError as error:
            raise CorruptFile(
                f"{self.paths.manifest_file(name)} is missing although a snapshot names it. The snapshot has expired, "
                "or the table is damaged: open the table again"
            ) from error
        if size_bytes is not None and len(data) != size_bytes:
            raise CorruptFile(f"{path} has {len(data)} bytes instead of {size_bytes}; restore it from a backup")
        return data


def _count(manifest: ManifestFileMeta) -> int:
    return manifest.num_added_files + manifest.num_deleted_files


@dataclass(slots=True)
class ManifestDraft:
    """Manifest files of one commit attempt, in memory until ``write``. All names share one uuid and one counter."""

    io: FileIO
    paths: TablePaths
    options: TableOptions
    partition_types: Sequence[DataType]
    new_uuid: Callable[[], str]
    _prefix: str = ""
    _files: list[tuple[str, bytes]] = field(default_factory=list)
    _written: list[str] = field(default_factory=list)
    _counter: int = 0

    def add_manifests(self, entries: Sequence[ManifestEntry]) -> tuple[ManifestFileMeta, ...]:
        """Add as many manifests for the entries as the target size requires; none without entries."""
        return self.add_stored([stored_entry(entry) for entry in entries])

    def add_stored(self, entries: Sequence[StoredEntry]) -> tuple[ManifestFileMeta, ...]:
        """As ``add_manifests``, for entries of other manifests."""
        if not entries:
            return ()
        names = iter(lambda: self._next_name("manifest"), "")
        target = self.options.manifest_target_file_size_bytes
        parts = encode_manifests(entries, self.options.manifest_compression, names, target)
        return tuple(
            summarize(self._add(name, data), len(data), inside, self.partition_types) for name, data, inside in parts
        )

    def add_list(self, manifests: Iterable[ManifestFileMeta]) -> tuple[str, int]:
        """Add a manifest list, possibly empty; returns its name and its size in bytes."""
        name = self._next_name("manifest-list")
        data = encode_manifest_list(manifests, self.options.manifest_compression, name)
        return self._add(name, data), len(data)

    def add_index_manifest(self, entries: Sequence[IndexEntry]) -> str | None:
        """Add the complete list of index files; returns its name, None for an empty list, which needs no file."""
        if not entries:
            return None
        name = self._next_name("index-manifest")
        return self._add(name, encode_index_manifest(entries, self.options.manifest_compression, name))

    def write(self, other: ManifestDraft | None = None) -> None:
        """Make all remaining files durable, together with those of another draft."""
        drafts = [self] if other is None else [other, self]
        files = [file for draft in drafts for file in draft._files]
        if files:
            for draft in drafts:
                # Noted first: a failed write may leave some of the files.
                draft._written += [path for path, _ in draft._files]
            self.io.write_all(files)
            for draft in drafts:
                draft._files.clear()

    def discard(self) -> None:
        """Delete the files. Only for an attempt whose snapshot provably does not exist, so nothing names them."""
        for path in self._written:
            self.io.delete(path)
        self._written.clear()
        self._files.clear()

    def _next_name(self, kind: str) -> str:
        self._prefix = self._prefix or self.new_uuid()
        return f"{kind}-{self._prefix}-{self._counter}"

    def _add(self, name: str, data: bytes) -> str:
        self._counter += 1
        self._files.append((self.paths.manifest_file(name), data))
        return name
