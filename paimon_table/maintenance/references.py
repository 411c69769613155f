"""The names of all files to which published metadata of a table refers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from paimon_table.errors import CorruptFile
from paimon_table.metadata.holders import Holder, Holding, holders
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.metadata.paths import TablePaths
from paimon_table.metadata.snapshot import Snapshot
from paimon_table.storage.file_io import FileIO


class References:
    """The names of data, changelog, index, manifest and statistics files in all directories; names are unique.

    Each holder and each manifest is read once; ``refresh`` adds newly published ones.
    """

    def __init__(self, io: FileIO, paths: TablePaths) -> None:
        self.names: set[str] = set()
        self._io = io
        self._paths = paths
        self._reader = ManifestReader(io, paths)
        self._seen: set[Holder] = set()
        self._read: set[str] = set()
        """The manifests whose entries are included."""

    def refresh(self, on_begin: Callable[[int], None], on_holder: Callable[[], None]) -> bool:
        """Read new holders; False if there are none. Raises CorruptFile if one cannot be read.

        Branches and tags may be recreated under the same names with the same numbers. A known holder then refers to the
        same files as before, or to files of other known holders.
        """
        new = [holder for holder in holders(self._io, self._paths) if holder not in self._seen]
        if new:
            on_begin(len(new))
        for holder in new:
            self._add(holder)
            on_holder()
        self._seen.update(new)
        return bool(new)

    def _add(self, holder: Holder) -> None:
        try:
            self._add_files(holder, holder.read(self._io))
        except (CorruptFile, FileNotFoundError) as error:
            if not self._io.exists(holder.path):
                return  # expired or deleted since, and its files with it
            raise CorruptFile(f"cannot tell to which files {holder} of {self._paths.root} refers: {error}") from error

    def _add_files(self, holder: Holder, snapshot: Snapshot) -> None:
        self.names.update(name for name in (snapshot.index_manifest, snapshot.statistics) if name is not None)
        base = (snapshot.base_manifest_list, snapshot.base_manifest_list_size)
        delta = (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
        if holder.kind is not Holding.CHANGELOG:
            self._add_list(*base)
            self._add_list(*delta)
        else:
            # The expiry of its snapshot, or of a later one, removed the files that only readers of snapshots need. The
            # rest expires with the changelog. Of the data files, only those that the snapshot added or deleted may
            # exist.
            if self._is_there(base[0]):
                self.names.update((base[0], *(manifest.file_name for manifest in self._reader.list_of(*base))))
            if self._is_there(delta[0]):
                self._add_list(*delta, may_lack=True)
        changelog = snapshot.changelog_manifest_list
        if changelog is not None and (not holder.may_lack_changelog or self._is_there(changelog)):
            self._add_list(changelog, snapshot.changelog_manifest_list_size)
        index = snapshot.index_manifest
        if index is not None and (holder.kind is not Holding.CHANGELOG or self._is_there(index)):
            self.names.update(entry.file.file_name for entry in self._reader.index_entries(snapshot))

    def _add_list(self, name: str, size_bytes: int | None, *, may_lack: bool = False) -> None:
        """``may_lack``: its manifests may be missing, with the files that they name."""
        for manifest in self._reader.list_of(name, size_bytes):
            if manifest.file_name not in self._read:
                if may_lack and not self._is_there(manifest.file_name):
                    continue
                for entry in self._reader.entries_of(manifest):
                    self._add_names(entry.file.file_name, entry.file.extra_files)
                self.names.add(manifest.file_name)
                self._read.add(manifest.file_name)
        self.names.add(name)

    def _add_names(self, name: str, extra_files: Iterable[str]) -> None:
        self.names.add(name)
        self.names.update(extra_files)

    def _is_there(self, manifest: str) -> bool:
        return self._io.exists(self._paths.manifest_file(manifest))
