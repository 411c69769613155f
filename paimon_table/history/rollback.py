"""Rolling a table back: an earlier snapshot, or the snapshot of a tag, becomes the newest one.

Implements Paimon's rollback: the snapshots, long-lived changelogs and tags behind it go. Files that only they needed
are left for ``remove-orphans``: a reader may be at them, and nothing says who else is.
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
    """Where the snapshot itself has expired."""
    snapshots: tuple[int, ...]
    """Those that go, the newest first."""
    changelogs: tuple[int, ...]
    tags: tuple[str, ...]


def plan_rollback(ctx: TableContext, snapshot_id: int) -> Rollback:
    """Back to a snapshot; ConfigError when there is none of this id."""
    to = ctx.snapshots.find(snapshot_id)
    if to is None:
        earliest, latest = ctx.snapshots.earliest_id(), ctx.snapshots.latest_id()
        there = "none" if earliest is None else f"the snapshots {earliest} to {latest}"
        raise ConfigError(f"{ctx.paths.root} has no snapshot {snapshot_id}; it has {there}")
    return _plan(ctx, to, None)


def plan_rollback_to_tag(ctx: TableContext, name: str) -> Rollback:
    """Back to a tag, whose snapshot may have expired; raises ConfigError if there is no such tag."""
    tag = TagStore(ctx.io, ctx.paths).read(name)
    present = ctx.snapshots.find(tag.snapshot.id)
    if present is not None and present.delta_manifest_list != tag.snapshot.delta_manifest_list:
        raise ConfigError(
            f"tag {name!r} of {ctx.paths.root} points to another snapshot {tag.snapshot.id} than the table has, which "
            "was rolled back since; create a branch from the tag to read it"
        )
    return _plan(ctx, tag.snapshot, tag if present is None else None)


def _plan(ctx: TableContext, to: Snapshot, tag: Tag | None) -> Rollback:
    listed = ctx.snapshots.listed_ids()  # a rollback may have been interrupted
    newer = sorted((i for i in listed if i > to.id), reverse=True)
    tags = [t.name for t in TagStore(ctx.io, ctx.paths).all() if t.snapshot.id > to.id]
    logs = [i for i in ctx.snapshots.changelog_ids() if i > to.id]
    return Rollback(to, tag, tuple(newer), tuple(reversed(logs)), tuple(tags))


def roll_back(ctx: TableContext, plan: Rollback) -> None:
    """Do it. The newest snapshots go first, so that a process that dies leaves a table that was rolled back less far.

    Doing it again finishes the work. Raises CommitConflict if another process commits at the same time, or expires the
    target: no snapshot is removed unless the target exists.
    """
    io, paths = ctx.io, ctx.paths
    # An expiry that was interrupted may still be about to take the snapshot to go back to.
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
    # Before any snapshot goes: readers take the hint for granted where no next snapshot is there. So it names none with
    # a gap behind it while there are newer ones: who dies then leaves a table whose newest snapshot is the newest.
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
    """Delete the newest snapshot, unless others have built on it or the target has expired.

    Otherwise the table might have no snapshot left, or a snapshot without its base. After an expiry has removed older
    snapshots, it looks for the one that it keeps (``removal``). After a commit has published, it looks for its base
    (``metadata.publisher``). So of two that run at the same time, at least one notices the other.
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
    """CommitConflict when the snapshot to go back to is there no more, or is another one of its id."""
    found = ctx.snapshots.find(plan.to.id)
    if found is None or found.delta_manifest_list != plan.to.delta_manifest_list:
        raise CommitConflict(
            f"{ctx.paths.root}: snapshot {plan.to.id} has expired, so the table cannot be rolled back to it; stop the "
            "job that expires snapshots, then roll back to a snapshot that is left, or to a tag"
        )
