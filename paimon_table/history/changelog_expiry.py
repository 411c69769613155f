"""Expiry of changelogs that outlive their snapshots.

Implements Paimon's ``changelog/`` directory: expired snapshots whose changelog still exists. With a changelog producer
the changes are in changelog files. Without one they are in the files that the snapshots added. Such a file stays until
the changelog of the snapshot that deletes it is removed. If the table has had both, that snapshot may be one with
changelog files, whose lists stay for this purpose.
"""

from __future__ import annotations

from collections.abc import Sequence

from paimon_table.history.expiry import Expiry, FilesToRemove, MetadataToRemove, consumers_of
from paimon_table.history.held import Held, HeldNames
from paimon_table.history.removal import Removal
from paimon_table.history.retention import Limits, end_of_changelogs
from paimon_table.history.snapshot_names import metadata_names
from paimon_table.metadata.changelog_origin import has_been_without_producer, may_need_added_files
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.metadata.snapshot import Snapshot
from paimon_table.metadata.table_context import TableContext


def plan_changelog_expiry(ctx: TableContext, limits: Limits, now_ms: int, names: HeldNames | None = None) -> Expiry:
    """The expiry of changelogs that is due; reads only. Empty if changelogs expire with their snapshots.

    ``names`` as in ``plan_expiry``.
    """
    latest, first_left = ctx.snapshots.latest_id(), _earliest_snapshot(ctx)
    # A changelog whose snapshot still exists protects nothing: an interrupted expiry left it.
    ids = [i for i in ctx.snapshots.changelog_ids() if first_left is None or i < first_left.id]
    if not ids or latest is None or first_left is None or not ctx.options.retention.outlives_snapshots:
        return Expiry()

    def time_of(snapshot_id: int) -> int | None:
        found = ctx.snapshots.find_changelog(snapshot_id)
        return None if found is None else found.time_ms

    end = end_of_changelogs(ids[0], ids[-1], latest, limits, consumers_of(ctx), time_of, now_ms)
    over = [log for i in ids if i < end.id and (log := ctx.snapshots.find_changelog(i)) is not None]
    last = ctx.snapshots.find_changelog(end.id)
    if not over or last is None:
        return Expiry(keeper=end.keeper)
    held = Held.of(ctx, names)
    files = FilesToRemove(ctx)
    was_without = has_been_without_producer(ctx)
    released = _released(ctx, ids, last) if was_without else []
    there = set() if released else _metadata_that_is_there(ctx, last)
    kept = there | metadata_names(files.reader, first_left)
    # Proof: the last one has all files that later tags share with the removed ones; if not, the tags themselves are
    # asked.
    says_all = not was_without or {last.base_manifest_list, last.delta_manifest_list} <= there
    kept |= held.metadata_of_tags(over[0].id, end.id if says_all else first_left.id) | held.files_of_branches()
    metadata = MetadataToRemove(ctx, kept)
    for log in over:
        if log.changelog_manifest_list is not None:
            files.add_changelog(log, held.files_of_branches())
            metadata.add_changelog_list(log)
    for log in (*over, *released):
        if log.changelog_manifest_list is not None and not was_without:
            continue  # its data files and lists were removed with its snapshot
        # Proof: the snapshot before it has expired, and so has its part of the changelog.
        needed = held.files_when_deleted_by(log.id) | held.files_of_branches()
        files.add_deleted(log, needed, keeps_appended=False)
        for name, size_bytes in _lists(log):
            if ctx.io.exists(ctx.paths.manifest_file(name)):
                metadata.add_list(name, size_bytes)
    removal = Removal(
        changelogs=tuple(log.id for log in over),
        earliest=end.id,
        files=tuple(files.paths),
        metadata=tuple(metadata.paths),
        directories=tuple(files.directories) if ctx.options.retention.clean_empty_directories else (),
    )
    return Expiry(removal, files.size_bytes, end.keeper)


def _earliest_snapshot(ctx: TableContext) -> Snapshot | None:
    earliest = ctx.snapshots.earliest_id()
    return None if earliest is None else ctx.snapshots.find(earliest)


def _released(ctx: TableContext, ids: Sequence[int], last: Snapshot) -> list[Snapshot]:
    """Long-lived changelogs that stay, but no longer need data of their snapshots.

    This holds once all changelogs without a changelog producer have expired. From then on the lists expire with their
    snapshots, including the manifests that these shared.
    """
    if may_need_added_files(ctx, [last]) or not ctx.io.exists(ctx.paths.manifest_file(last.delta_manifest_list)):
        return []
    return [log for i in ids if i >= last.id and (log := ctx.snapshots.find_changelog(i)) is not None]


def _lists(log: Snapshot) -> tuple[tuple[str, int | None], ...]:
    return (
        (log.delta_manifest_list, log.delta_manifest_list_size),
        (log.base_manifest_list, log.base_manifest_list_size),
    )


def _metadata_that_is_there(ctx: TableContext, log: Snapshot) -> set[str]:
    """The lists and manifests of an expired snapshot's data, as far as they are kept for its changelog."""
    reader = ManifestReader(ctx.io, ctx.paths)
    names: set[str] = set()
    for name, size_bytes in _lists(log):
        if ctx.io.exists(ctx.paths.manifest_file(name)):
            names |= {name, *(manifest.file_name for manifest in reader.list_of(name, size_bytes))}
    return names
