"""The names of the files that a snapshot needs. A name is unique in a table, across all directories."""

from __future__ import annotations

from collections.abc import Iterable

from paimon_table.metadata.manifest import ADD, live_entries
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.metadata.snapshot import Snapshot


def live_file_names(reader: ManifestReader, snapshot: Snapshot) -> set[str]:
    """The snapshot's data files, without their extra files."""
    return {e.file.file_name for e in live_entries(reader.entries_in(reader.all_manifests(snapshot)))}


def metadata_names(reader: ManifestReader, snapshot: Snapshot) -> set[str]:
    """Manifest lists, manifests, the index manifest with its files, statistics; nothing of its changelog."""
    names = {snapshot.base_manifest_list, snapshot.delta_manifest_list}
    names |= {manifest.file_name for manifest in reader.all_manifests(snapshot)}
    if snapshot.index_manifest is not None:
        names.add(snapshot.index_manifest)
        names |= {entry.file.file_name for entry in reader.index_entries(snapshot)}
    if snapshot.statistics is not None:
        names.add(snapshot.statistics)
    return names


def changelog_names(reader: ManifestReader, snapshot: Snapshot) -> set[str]:
    """The manifest list of its changelog, the manifests, the files.

    Empty if the list is missing: a branch may begin at a tag, which does not keep the changelog of its snapshot.
    """
    listed = snapshot.changelog_manifest_list
    if listed is None or not reader.io.exists(reader.paths.manifest_file(listed)):
        return set()
    manifests = reader.list_of(listed, snapshot.changelog_manifest_list_size)
    files = {entry.file.file_name for entry in reader.entries_in(manifests)}
    return {listed, *(manifest.file_name for manifest in manifests), *files}


def names_of_log(reader: ManifestReader, log: Snapshot, *, needs_added: bool) -> set[str]:
    """The lists and manifests of an expired snapshot's data, as far as they are kept for its long-lived changelog.

    ``needs_added``: includes the files that it added, which are its changes.
    """
    names: set[str] = set()
    for listed, size_bytes in (
        (log.base_manifest_list, log.base_manifest_list_size),
        (log.delta_manifest_list, log.delta_manifest_list_size),
    ):
        if reader.io.exists(reader.paths.manifest_file(listed)):
            names |= {listed, *(manifest.file_name for manifest in reader.list_of(listed, size_bytes))}
    if needs_added and log.delta_manifest_list in names:
        for entry in reader.delta_entries(log):
            if entry.kind == ADD:
                names |= {entry.file.file_name, *entry.file.extra_files}
    return names


def all_names(reader: ManifestReader, snapshots: Iterable[Snapshot]) -> set[str]:
    """Data files with their extra files, and metadata of snapshots."""
    names: set[str] = set()
    for snapshot in snapshots:
        for entry in live_entries(reader.entries_in(reader.all_manifests(snapshot))):
            names |= {entry.file.file_name, *entry.file.extra_files}
        names |= metadata_names(reader, snapshot)
    return names
