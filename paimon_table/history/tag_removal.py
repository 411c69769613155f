"""Deleting tags, with the files that only they needed.

Implements Paimon's deletion of tags. If the snapshot of a tag has expired, its files are removed, unless the previous
tag or the next tag or snapshot needs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from paimon_table.errors import CorruptFile
from paimon_table.history.branches import BranchStore
from paimon_table.history.expiry import Expiry, FilesToRemove, MetadataToRemove
from paimon_table.history.removal import Removal
from paimon_table.history.snapshot_names import all_names, names_of_log
from paimon_table.history.tags import Tag, TagStore
from paimon_table.metadata.changelog_origin import has_been_without_producer, producer_of
from paimon_table.metadata.manifest import live_entries
from paimon_table.metadata.snapshot import Snapshot
from paimon_table.metadata.table_context import TableContext


def plan_tag_removal(ctx: TableContext, tag: Tag) -> Expiry:
    """The removal of a tag: only its own file, while its snapshot or another tag of that snapshot exists.

    The same applies if this tag or a neighbour is damaged.
    """
    others = [t for t in TagStore(ctx.io, ctx.paths).all() if t.name != tag.name]
    alone = Expiry(Removal(tags=(tag.name,), tag_witnesses=(tag.snapshot.delta_manifest_list,)))
    is_there = ctx.io.exists(ctx.paths.snapshot_file(tag.snapshot.id))
    if is_there or any(other.snapshot.id == tag.snapshot.id for other in others):
        return alone
    try:
        return _with_files(ctx, tag, others, alone)
    except CorruptFile:
        return alone  # its needs are unknown: ``remove-orphans`` finds unneeded files later


def _with_files(ctx: TableContext, tag: Tag, others: Sequence[Tag], alone: Expiry) -> Expiry:
    files = FilesToRemove(ctx)
    # Proof: the next neighbour has all files that outlived the tag, the previous one all older files.
    needed = all_names(files.reader, _neighbours(ctx, tag, others))
    needed |= all_names(files.reader, BranchStore(ctx.io, ctx.paths).roots())
    numbers = ctx.snapshots.changelog_ids() if has_been_without_producer(ctx) else []
    for log in filter(None, map(ctx.snapshots.find_changelog, numbers)):
        needed |= names_of_log(files.reader, log, needs_added=producer_of(ctx, log) == "none")
    for entry in live_entries(files.reader.entries_in(files.reader.all_manifests(tag.snapshot))):
        if entry.file.file_name not in needed:
            files.add(entry)
    metadata = MetadataToRemove(ctx, needed)
    metadata.add_lists(tag.snapshot)
    metadata.add_index_and_statistics(tag.snapshot)
    directories = tuple(files.directories) if ctx.options.retention.clean_empty_directories else ()
    removal = replace(alone.removal, files=tuple(files.paths), metadata=tuple(metadata.paths), directories=directories)
    return Expiry(removal, files.size_bytes)


def _neighbours(ctx: TableContext, tag: Tag, others: Iterable[Tag]) -> list[Snapshot]:
    others = list(others)
    before = [other.snapshot for other in others if other.snapshot.id < tag.snapshot.id]
    earliest = ctx.snapshots.earliest_id()
    first = None if earliest is None else ctx.snapshots.find(earliest)
    after = [other.snapshot for other in others if other.snapshot.id > tag.snapshot.id]
    after += [] if first is None else [first]
    return [*before[-1:], *sorted(after, key=lambda snapshot: snapshot.id)[:1]]


def tags_that_are_over(tags: Iterable[Tag], now: datetime) -> list[Tag]:
    """The tags whose time has passed."""
    return [tag for tag in tags if tag.is_over(now)]
