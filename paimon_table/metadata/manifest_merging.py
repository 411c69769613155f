"""Merges manifests to keep the base manifest list short.

Implements Paimon's manifest merging: a full rewrite without DELETE entries if enough bytes are in small manifests or in
manifests with deletes, otherwise the merging of neighbours. Merging never changes the live files.

Paimon merges the whole tail of small manifests whenever it is long enough. Tidemark merges only the newest part of the
tail, as far as it outweighs the manifests before it. So an entry is rewritten once each time its manifest doubles. With
Paimon's rule it is rewritten until the manifest reaches the target size, which even a manifest of a hundred thousand
files may never reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from paimon_table.metadata.manifest import (
    ADD,
    E,
    Identity,
    ManifestFileMeta,
    live_entries,
    may_contain_partition,
)
from paimon_table.options.table_options import TableOptions
from paimon_table.types import DataType

Read = Callable[[ManifestFileMeta], Sequence[E]]
Write = Callable[[Sequence[E]], Sequence[ManifestFileMeta]]


def merge_manifests(
    manifests: Sequence[ManifestFileMeta],
    options: TableOptions,
    partition_types: Sequence[DataType],
    read: Read[E],
    write: Write[E],
) -> tuple[ManifestFileMeta, ...]:
    """The manifests of the next base list; ``manifests`` themselves if no merge is worth it."""
    target = options.manifest_target_file_size_bytes
    rewritable = sum(m.file_size_bytes for m in manifests if m.num_deleted_files or m.file_size_bytes < target)
    if rewritable >= options.manifest_full_compaction_size_bytes:
        return _merge_fully(manifests, target, partition_types, read, write)
    merged: list[ManifestFileMeta] = []
    for group in minor_groups(manifests, target, options.manifest_merge_min_count):
        merged += group if len(group) == 1 else write(cancelled(e for m in group for e in read(m)))
    return tuple(merged)


def minor_groups(
    manifests: Sequence[ManifestFileMeta], target_size_bytes: int, min_count: int
) -> list[list[ManifestFileMeta]]:
    """Neighbours to merge, in order: groups that reach the target size, and the end of a tail with enough manifests.

    A group of one stays unchanged.
    """
    groups: list[list[ManifestFileMeta]] = []
    group: list[ManifestFileMeta] = []
    size = 0
    for manifest in manifests:
        group.append(manifest)
        size += manifest.file_size_bytes
        if size >= target_size_bytes:
            groups.append(group)
            group, size = [], 0
    first = _outweighing(group, max(2, min_count // 2)) if len(group) >= min_count else len(group)
    groups += [[manifest] for manifest in group[:first]]
    return [*groups, group[first:]] if first < len(group) else groups


def _outweighing(tail: Sequence[ManifestFileMeta], least_count: int) -> int:
    """The index of the first manifest to merge: the last ``least_count`` manifests, and more before them.

    The merge stops at the first older manifest that is larger than all merged manifests together.
    """
    first = max(0, len(tail) - least_count)
    size = sum(manifest.file_size_bytes for manifest in tail[first:])
    while first and tail[first - 1].file_size_bytes <= size:
        first -= 1
        size += tail[first].file_size_bytes
    return first


def cancelled(entries: Iterable[E]) -> list[E]:
    """Entries in list order without the ADDs that a later DELETE of the same list cancels.

    A DELETE whose ADD is not in the list is kept, once: the ADD is in a manifest outside the group.
    """
    kept: dict[tuple[int, Identity], E] = {}
    for entry in entries:
        if entry.kind == ADD or kept.pop((ADD, entry.identity), None) is None:
            kept[entry.kind, entry.identity] = entry
    return list(kept.values())


def _merge_fully(
    manifests: Sequence[ManifestFileMeta],
    target: int,
    partition_types: Sequence[DataType],
    read: Read[E],
    write: Write[E],
) -> tuple[ManifestFileMeta, ...]:
    """Drop all DELETE entries; large manifests without deleted files stay unchanged."""
    contents = {m.file_name: read(m) for m in manifests if m.num_deleted_files}
    deleted = {entry.identity for entries in contents.values() for entry in entries if entry.kind != ADD}
    deleted_partitions = {identity[0] for identity in deleted}
    kept: list[ManifestFileMeta] = []
    rewritten: list[E] = []
    for manifest in manifests:
        is_large = manifest.file_size_bytes >= target and not manifest.num_deleted_files
        stats = manifest.partition_stats
        if is_large and not any(may_contain_partition(stats, p, partition_types) for p in deleted_partitions):
            kept.append(manifest)
            continue
        entries = contents.get(manifest.file_name) or read(manifest)
        if is_large and not any(entry.identity in deleted for entry in entries):
            kept.append(manifest)
        else:
            rewritten += entries
    survivors = [entry for entry in live_entries(rewritten) if entry.identity not in deleted]
    return (*kept, *write(survivors))
