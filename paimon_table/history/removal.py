"""Removes snapshots, changelogs and tags together with the files that are then unreferenced.

A removal is planned as a whole, with the proof that its files are unreferenced. The plan is stored first: in
``tidemark/removals/ID.json`` below the table, where no other program looks. Then the snapshots are removed, oldest
first, so that readers can read every snapshot that they find. Then the files are removed, then the plan. After a crash
the plan remains. The next removal proves again that the files are unreferenced, and finishes the work.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from paimon_table.errors import CommitConflict, CorruptFile
from paimon_table.history.branches import BranchStore
from paimon_table.history.consumers import ConsumerStore
from paimon_table.history.held import Held
from paimon_table.history.snapshot_names import all_names
from paimon_table.history.tags import Tag, TagStore
from paimon_table.json_text import as_text, as_whole_number
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.metadata.paths import TablePaths
from paimon_table.metadata.snapshot import SnapshotStore
from paimon_table.metadata.table_context import TableContext
from paimon_table.storage.file_io import FileIO

_AT_A_TIME = 200
"""The number of files between two reports of progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """The plan of a removal. Ids rise; paths are relative to the table, or absolute for files outside of it."""

    snapshots: tuple[int, ...] = ()
    changelogs: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    tags_seen: tuple[str, ...] = ()
    """If snapshots are removed: the tags at the time of planning."""
    tag_witnesses: tuple[str, ...] = ()
    """The delta manifest lists of the tags' snapshots. Another list shows that the tag was recreated for another
    snapshot."""
    earliest: int | None = None
    """The earliest snapshot that stays, or the earliest changelog if changelogs are removed."""
    witness: str | None = None
    """The delta manifest list of that snapshot. Another list under its id shows that the table was rolled back."""
    keeps_changelogs: bool = False
    """Whether the snapshots become long-lived changelogs."""
    files: tuple[str, ...] = ()
    metadata: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    """Directories to remove if they are empty afterwards."""


def carry_out(
    io: FileIO,
    paths: TablePaths,
    removal: Removal,
    new_uuid: Callable[[], str],
    advance: Callable[[int], None] = lambda _: None,
    is_wanted: Callable[[], bool] = lambda: False,
) -> bool:
    """Do the removal; the caller has proved that no remaining snapshot, tag or branch needs the files.

    If ``is_wanted`` says just before the removal that a file is needed now, this returns False and removes nothing. If
    the table was rolled back to before the snapshot that stays, it raises CommitConflict and removes nothing.
    """
    _check_not_rolled_back(io, paths, removal)
    texts, logs = _snapshot_texts(io, paths, removal), SnapshotStore(io, paths).changelog_ids()
    record = f"{_records(paths)}/{new_uuid()}.json"
    io.write(record, json.dumps(asdict(removal)).encode())
    if is_wanted():
        io.delete(record)
        return False
    _make_invisible(io, paths, removal)
    try:
        # A rollback looks for its target after removing newer snapshots, so at least one of both detects the other.
        _check_not_rolled_back(io, paths, removal)
    except CommitConflict:
        _put_back(io, paths, texts, logs)
        io.delete(record)
        raise
    _remove_files(io, paths, _without_new_roots(io, paths, removal), advance)
    io.delete(record)
    return True


def _put_back(io: FileIO, paths: TablePaths, texts: Mapping[int, bytes], logs: Sequence[int]) -> None:
    """Restore snapshots, newest first, and ``logs``, the ids of the former changelogs.

    A rollback first writes its target into the hint; this does not restore newer snapshots.
    """
    newest = SnapshotStore(io, paths).rolled_back_to
    for snapshot_id, text in texts.items():
        if newest is None or snapshot_id <= newest:
            io.publish(paths.snapshot_file(snapshot_id), text)
    for snapshot_id in texts.keys() - {*logs}:
        io.delete(paths.changelog_file(snapshot_id))
    if texts:
        write_changelog_hints(io, paths, logs)


def write_changelog_hints(io: FileIO, paths: TablePaths, logs: Sequence[int]) -> None:
    """Write the hints of the long-lived changelogs; ``logs`` are their ids in rising order."""
    for path, value in ((paths.latest_changelog_hint, logs[-1:]), (paths.earliest_changelog_hint, logs[:1])):
        io.write(path, str(value[0]).encode(), durable=False) if value else io.delete(path)


def is_wanted_by_consumers(ctx: TableContext, removal: Removal) -> bool:
    """Whether a consumer that was created or reset since the planning of a removal still needs its snapshots.

    Consumers that existed before have kept their snapshots out of the plan.
    """
    held = removal.changelogs or (() if ctx.options.retention.consumer_changelog_only else removal.snapshots)
    if not held:
        return False
    path = ctx.paths.changelog_file if removal.changelogs else ctx.paths.snapshot_file
    first = min((consumer.next_snapshot for consumer in ConsumerStore(ctx.io, ctx.paths).all()), default=None)
    return first is not None and any(number >= first and ctx.io.exists(path(number)) for number in reversed(held))


@dataclass(frozen=True, slots=True)
class Finished:
    """The outcome of interrupted removals."""

    done: int = 0
    dropped: int = 0
    """The removals that were given up, because the table was rolled back or some of their files are needed now."""


def finish_interrupted(ctx: TableContext) -> Finished:
    """Finish interrupted removals."""
    io, paths, dropped = ctx.io, ctx.paths, 0
    names = [name for name in io.list_names(_records(paths)) if name.endswith(".json")]
    for name in names:
        record = f"{_records(paths)}/{name}"
        removal = _read(io, record)
        if removal is None:
            continue
        try:
            left = _still_unneeded(ctx, removal)
        except CorruptFile:
            if io.exists(record):
                raise
            continue  # another process finished it, and removed more since
        if left is None:
            dropped += 1
        else:
            _make_invisible(io, paths, left)
            _remove_files(io, paths, _without_new_roots(io, paths, left), lambda _: None)
        io.delete(record)
    return Finished(len(names) - dropped, dropped)


def _read(io: FileIO, record: str) -> Removal | None:
    """The plan in a record; None if another process has finished the removal."""
    try:
        document = json.loads(io.read(record))
        return Removal(**{key: _value(key, value) for key, value in document.items()})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFile(
            f"{record} is not readable ({error!r}); delete it: 'remove-orphans' finds the files that it lists"
        ) from error


def _value(key: str, value: Any) -> Any:
    """A value of a record in the form of its attribute; raises ValueError or TypeError for another kind of value."""
    if key == "keeps_changelogs":
        return bool(value)
    kind: Callable[[Any], int | str] = as_whole_number if key in {"earliest", "snapshots", "changelogs"} else as_text
    if key in {"earliest", "witness"}:
        return None if value is None else kind(value)
    if not isinstance(value, list):
        raise ValueError(f"{key} is not a list")
    return tuple(map(kind, value))


def _still_unneeded(ctx: TableContext, removal: Removal) -> Removal | None:
    """The rest of a removal. None if the table was rolled back to before it, or if a new consumer needs a remaining
    snapshot.

    In that case, ``remove-orphans`` finds the remaining files.
    """
    if is_wanted_by_consumers(ctx, removal):
        return None
    earliest = ctx.snapshots.earliest_id()
    if earliest is None:
        return None
    if removal.snapshots and removal.earliest is not None:
        witness = ctx.snapshots.find(removal.earliest)
        if witness is None and earliest < removal.earliest:
            return None
        if witness is not None and witness.delta_manifest_list != removal.witness:
            return None
        earliest = max(earliest, removal.earliest)
    first = ctx.snapshots.find(earliest)
    if first is None:
        return None
    # Proof: the first snapshot that stays has all files that later ones share with the past; all tags and branches are
    # read.
    needed = all_names(ManifestReader(ctx.io, ctx.paths), [first]) | Held.of(ctx).everything()
    tags = TagStore(ctx.io, ctx.paths)
    same = [(n, w) for n, w in zip(removal.tags, removal.tag_witnesses, strict=False) if _is_still(tags.find(n), w)]
    names, witnesses = tuple(name for name, _ in same), tuple(witness for _, witness in same)
    return replace(_without(removal, needed), tags=names, tag_witnesses=witnesses)


def _is_still(tag: Tag | None, witness: str) -> bool:
    return tag is not None and tag.snapshot.delta_manifest_list == witness


def _make_invisible(io: FileIO, paths: TablePaths, removal: Removal) -> None:
    """Remove snapshots, changelogs and tags; durable before any of their files is removed."""
    snapshots = SnapshotStore(io, paths)
    if removal.keeps_changelogs:
        for snapshot_id in removal.snapshots:
            with suppress(FileNotFoundError):  # another process does the same
                io.write(paths.changelog_file(snapshot_id), io.read(paths.snapshot_file(snapshot_id)))
        io.write(paths.latest_changelog_hint, str(removal.snapshots[-1]).encode())
    for snapshot_id in removal.snapshots:
        io.delete(paths.snapshot_file(snapshot_id))
    if removal.snapshots and removal.earliest is not None:
        snapshots.write_earliest_hint(removal.earliest)
    for snapshot_id in removal.changelogs:
        io.delete(paths.changelog_file(snapshot_id))
    if removal.changelogs and removal.earliest is not None:
        io.write(paths.earliest_changelog_hint, str(removal.earliest).encode())
    for name in removal.tags:
        io.delete(paths.tag_file(name))


def _check_not_rolled_back(io: FileIO, paths: TablePaths, removal: Removal) -> None:
    """Raises CommitConflict if the table ends before the snapshot that stays, or has another snapshot under its id."""
    if not removal.snapshots or removal.earliest is None:
        return
    store = SnapshotStore(io, paths)
    found = store.find(removal.earliest)
    if found is None and (store.latest_id() or 0) > removal.earliest:
        return  # another process has expired more
    if found is None or found.delta_manifest_list != removal.witness:
        raise CommitConflict(
            f"{paths.root}: the table was rolled back while its snapshots up to {removal.snapshots[-1]} expired; "
            "none of them was removed: try again"
        )


def _snapshot_texts(io: FileIO, paths: TablePaths, removal: Removal) -> dict[int, bytes]:
    """The files of the snapshots to remove, by id, newest first."""
    texts = {}
    for snapshot_id in reversed(removal.snapshots):
        with suppress(FileNotFoundError):
            texts[snapshot_id] = io.read(paths.snapshot_file(snapshot_id))
    return texts


def _without_new_roots(io: FileIO, paths: TablePaths, removal: Removal) -> Removal:
    """The removal without the files of tags and branches created since its planning."""
    return _without_branches(io, paths, _without_new_tags(io, paths, removal))


def _without_branches(io: FileIO, paths: TablePaths, removal: Removal) -> Removal:
    """The removal of tags without the files of branches created at them since its planning.

    No further branch can begin there: the tags are removed, and creating a branch checks its tag afterwards.
    """
    if not removal.tags or not (removal.files or removal.metadata):
        return removal
    roots = BranchStore(io, paths).roots()
    return _without(removal, all_names(ManifestReader(io, paths), roots)) if roots else removal


def _without_new_tags(io: FileIO, paths: TablePaths, removal: Removal) -> Removal:
    """The removal without the files of tags created at its snapshots since its planning.

    No further tag can be created there: the snapshots are removed, and creating a tag checks its snapshot afterwards.
    """
    if not removal.snapshots:
        return removal
    tags = TagStore(io, paths)
    found = [tags.find(name) for name in tags.names() if name not in removal.tags_seen]
    new = [tag.snapshot for tag in found if tag is not None and tag.snapshot.id <= removal.snapshots[-1]]
    return _without(removal, all_names(ManifestReader(io, paths), new)) if new else removal


def _without(removal: Removal, needed: Collection[str]) -> Removal:
    return replace(
        removal,
        files=tuple(path for path in removal.files if path.rpartition("/")[2] not in needed),
        metadata=tuple(path for path in removal.metadata if path.rpartition("/")[2] not in needed),
    )


def _remove_files(io: FileIO, paths: TablePaths, removal: Removal, advance: Callable[[int], None]) -> None:
    everything = [absolute(paths, path) for path in (*removal.files, *removal.metadata)]
    for at in range(0, len(everything), _AT_A_TIME):
        part = everything[at : at + _AT_A_TIME]
        io.delete_all(part)
        advance(len(part))
    remove_empty(io, paths, removal.directories)


def remove_empty(io: FileIO, paths: TablePaths, directories: Sequence[str]) -> None:
    """Remove empty directories below the table, and their parents if these become empty."""
    for directory in directories:
        while directory and io.delete_if_empty(f"{paths.root}/{directory}"):
            directory = directory.rpartition("/")[0]


def relative(paths: TablePaths, path: str) -> str:
    """The form of a path in a removal."""
    return path.removeprefix(f"{paths.root}/")


def absolute(paths: TablePaths, path: str) -> str:
    """The inverse of ``relative``."""
    return path if path.startswith("/") or "://" in path else f"{paths.root}/{path}"


def _records(paths: TablePaths) -> str:
    return f"{paths.root}/tidemark/removals"
