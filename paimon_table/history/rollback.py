"""Rolling a table back: an earlier snapshot, or the snapshot of a tag, becomes the newest one.

Implements Paimon's rollback: it removes the newer snapshots, long-lived changelogs and tags. It leaves the files that
only these needed to ``remove-orphans``, because readers may still use them.
"""

from __future__ import annotations

from dataclasses import dataclass

from paimon_table.errors import CommitConflict, ConfigError
from paimon_table.history.removal import finish_interrupted, write_changelog_hints
from paimon_table.history.tags import Tag, TagStore
from paimon_table.metadata.snapshot import Snapshot
from paimon_table.metadata.table_context import TableContext


@dataclass(frozen=True, slots=True)
class Rollback:
    """The effect of a rollback."""

    to: Snapshot
    tag: Tag | None
    """The tag, if the snapshot itself has expired."""
    snapshots: tuple[int, ...]
    """The snapshots to remove, newest first."""
    changelogs: tuple[int, ...]
    tags: tuple[str, ...]


def plan_rollback(ctx: TableContext, snapshot_id: int) -> Rollback:
    """Plan a rollback to a snapshot; raises ConfigError if it does not exist."""
    to = ctx.snapshots.find(snapshot_id)
    if to is None:
        earliest, latest = ctx.snapshots.earliest_id(), ctx.snapshots.latest_id()
        there = "none" if earliest is None else f"the snapshots {earliest} to {latest}"
        raise ConfigError(f"{ctx.paths.root} has no snapshot {snapshot_id}; it has {there}")
    return _plan(ctx, to, None)


def plan_rollback_to_tag(ctx: TableContext, name: str) -> Rollback:
    """Plan a rollback to a tag, whose snapshot may have expired; raises ConfigError without such a tag."""
    tag = TagStore(ctx.io, ctx.paths).read(name)
    present = ctx.snapshots.find(tag.snapshot.id)
    if present is not None and present.delta_manifest_list != tag.snapshot.delta_manifest_list:
        raise ConfigError(
            f"the table {ctx.paths.root} was rolled back after tag {name!r} was created, and has another snapshot "
            f"{tag.snapshot.id} now. Create a branch from the tag to read it"
        )
    return _plan(ctx, tag.snapshot, tag if present is None else None)


def _plan(ctx: TableContext, to: Snapshot, tag: Tag | None) -> Rollback:
    listed = ctx.snapshots.listed_ids()  # a rollback may have been interrupted
    newer = sorted((i for i in listed if i > to.id), reverse=True)
    tags = [t.name for t in TagStore(ctx.io, ctx.paths).all() if t.snapshot.id > to.id]
    logs = [i for i in ctx.snapshots.changelog_ids() if i > to.id]
    return Rollback(to, tag, tuple(newer), tuple(reversed(logs)), tuple(tags))


def roll_back(ctx: TableContext, plan: Rollback) -> None:
    """Roll back. It removes the newest snapshots first, so that a crash leaves a table that is rolled back less far.

    A repeated call finishes the work. Raises CommitConflict if another process commits at the same time, or expires the
    target: no snapshot is removed unless the target exists.
    """
    io, paths = ctx.io, ctx.paths
    # The plan of an interrupted expiry may include the target.
    finish_interrupted(ctx)
    is_restored = plan.tag is not None and io.publish(
        paths.snapshot_file(plan.to.id), TagStore(io, paths).snapshot_text(plan.tag)
    )
    try:
        _take_newer(ctx, plan)
    except CommitConflict:
        if is_restored and plan.snapshots and io.exists(paths.snapshot_file(plan.snapshots[-1])):
            io.delete(paths.snapshot_file(plan.to.id))
        raise


def _take_newer(ctx: TableContext, plan: Rollback) -> None:
    """Delete all snapshots newer than the target, which exists."""
    io, paths = ctx.io, ctx.paths
    _check_there(ctx, plan)
    # Before any removal: readers trust the hint if the next snapshot does not exist. So the hint must not name a
    # snapshot before a gap while newer ones exist. After a crash, readers then still find the newest snapshot.
    oldest_to_go = min(plan.snapshots, default=plan.to.id + 1)
    has_gap = oldest_to_go > plan.to.id + 1
    io.write(paths.latest_hint, str(oldest_to_go if has_gap else plan.to.id).encode())
    for name in plan.tags:
        io.delete(paths.tag_file(name))
    for snapshot_id in plan.changelogs:
        io.delete(paths.changelog_file(snapshot_id))
    for snapshot_id in plan.snapshots:
        _check_there(ctx, plan)
        _delete(ctx, plan, snapshot_id)
    left = ctx.snapshots.listed_ids()
    if max(left, default=0) > plan.to.id:
        raise _written_meanwhile(ctx, max(left))
    _check_there(ctx, plan)
    if has_gap:
        io.write(paths.latest_hint, str(plan.to.id).encode())
    if plan.tag is not None or io.exists(paths.earliest_hint):
        ctx.snapshots.write_earliest_hint(min(left))
    if plan.changelogs:
        write_changelog_hints(io, paths, [i for i in ctx.snapshots.changelog_ids() if i <= plan.to.id])


def _written_meanwhile(ctx: TableContext, snapshot_id: int) -> CommitConflict:
    return CommitConflict(
        f"{ctx.paths.root}: another writer committed snapshot {snapshot_id} during the rollback; stop all writers"
        " (pipelines, compactions and other jobs), then roll back again"
    )


def _delete(ctx: TableContext, plan: Rollback, snapshot_id: int) -> None:
    """Delete the newest snapshot, unless others have committed on top of it or the target has expired.

    Otherwise the table might have no snapshot left, or a snapshot without its base. An expiry, after removing older
    snapshots, looks for the one that it keeps (``removal``). A commit, after publishing, looks for its base
    (``metadata.publisher``). So of two that run at the same time, at least one detects the other.
    """
    path, above = ctx.paths.snapshot_file(snapshot_id), ctx.paths.snapshot_file(snapshot_id + 1)
    try:
        text = ctx.io.read(path)
    except FileNotFoundError:
        return
    ctx.io.delete(path)
    try:
        if ctx.io.exists(above):
            raise _written_meanwhile(ctx, snapshot_id + 1)
        _check_there(ctx, plan)
    except CommitConflict:
        ctx.io.publish(path, text)
        raise


def _check_there(ctx: TableContext, plan: Rollback) -> None:
    """Raises CommitConflict if the target no longer exists, or another snapshot has its id."""
    found = ctx.snapshots.find(plan.to.id)
    if found is None or found.delta_manifest_list != plan.to.delta_manifest_list:
        raise CommitConflict(
            f"{ctx.paths.root}: snapshot {plan.to.id} has expired, so the table cannot be rolled back to it. Stop the "
            "job that expires snapshots, then roll back to an existing snapshot or tag"
        )
