"""Expires snapshots with their files, then changelogs that outlive them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from paimon_table.history.changelog_expiry import plan_changelog_expiry
from paimon_table.history.claims import Claims, no_claims
from paimon_table.history.expiry import Expiry, plan_expiry
from paimon_table.history.held import HeldNames
from paimon_table.history.removal import carry_out, finish_interrupted, is_wanted_by_consumers
from paimon_table.history.retention import Keeper, Limits
from paimon_table.metadata.table_context import TableContext
from paimon_table.surroundings import now_ms, random_uuid


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Clock, random ids, claims of writers, the observer of removed files, and cached facts about a table."""

    clock_ms: Callable[[], int] = now_ms
    new_uuid: Callable[[], str] = random_uuid
    claims: Claims = no_claims
    advance: Callable[[int], None] = field(default=lambda _: None)
    names: HeldNames = field(default_factory=HeldNames)


@dataclass(frozen=True, slots=True)
class Expired:
    """The content that was or would be removed."""

    snapshots: tuple[int, ...] = ()
    changelogs: tuple[int, ...] = ()
    file_count: int = 0
    """Data and changelog files, with their extra files."""
    size_bytes: int = 0
    metadata_count: int = 0
    keeper: Keeper | None = None
    """Who keeps more snapshots than the options ask for."""
    finished: int = 0
    """The number of interrupted removals that were finished."""
    dropped: int = 0
    """The removals that were given up, see ``Finished``: ``remove-orphans`` finds their unreferenced files."""

    def with_more(self, expiry: Expiry) -> Expired:
        """This and the content of another expiry."""
        removal = expiry.removal
        return replace(
            self,
            snapshots=self.snapshots + removal.snapshots,
            changelogs=self.changelogs + removal.changelogs,
            file_count=self.file_count + len(removal.files),
            size_bytes=self.size_bytes + expiry.size_bytes,
            metadata_count=self.metadata_count + len(removal.metadata),
            keeper=expiry.keeper or self.keeper,
        )


def expire(
    ctx: TableContext, surroundings: Surroundings, limits: Limits | None = None, rounds: int | None = None
) -> Expired:
    """Expire all content past its retention, by the options or ``limits`` of snapshots, in at most this many rounds.

    Finishes interrupted removals first. Safe while others write, read or expire the same table. Raises
    CorruptFile if the needs of tags, branches and consumers are unknown.
    """
    chosen = limits or Limits.of_snapshots(ctx.options.retention)
    of_logs = Limits.of_changelogs(ctx.options.retention)
    interrupted = finish_interrupted(ctx)
    done = Expired(finished=interrupted.done, dropped=interrupted.dropped)
    clock_ms, names = surroundings.clock_ms, surroundings.names
    done = _repeat(
        ctx, surroundings, rounds, lambda: plan_expiry(ctx, chosen, clock_ms(), surroundings.claims, names), done
    )
    done = _repeat(ctx, surroundings, rounds, lambda: plan_changelog_expiry(ctx, of_logs, clock_ms(), names), done)
    _write_missing_hints(ctx)
    return done


def _repeat(
    ctx: TableContext, surroundings: Surroundings, rounds: int | None, plan: Callable[[], Expiry], done: Expired
) -> Expired:
    """Plan and remove until nothing more expires, or this many times; adds to the result.

    If a new consumer needs a snapshot of the plan, it plans again.
    """
    for number in itertools.count():
        expiry = Expiry() if number == rounds else plan()
        removal = expiry.removal
        if expiry.is_empty:
            done = done.with_more(expiry)
            break
        is_wanted = partial(is_wanted_by_consumers, ctx, removal)
        if carry_out(ctx.io, ctx.paths, removal, surroundings.new_uuid, surroundings.advance, is_wanted):
            done = done.with_more(expiry)
    return done


def would_expire(ctx: TableContext, surroundings: Surroundings, limits: Limits | None = None) -> Expired:
    """What ``expire`` would remove; removes nothing."""
    chosen = replace(limits or Limits.of_snapshots(ctx.options.retention), at_once=_NO_LIMIT)
    snapshots = plan_expiry(ctx, chosen, surroundings.clock_ms(), surroundings.claims)
    changelogs = plan_changelog_expiry(
        ctx, replace(Limits.of_changelogs(ctx.options.retention), at_once=_NO_LIMIT), surroundings.clock_ms()
    )
    return Expired().with_more(snapshots).with_more(changelogs)


_NO_LIMIT = 1 << 40


def _write_missing_hints(ctx: TableContext) -> None:
    """Write missing hints, so that readers of tables with many snapshots need no listing, as after Java's expiry."""
    earliest = ctx.snapshots.earliest_id()
    if earliest is not None and not ctx.io.exists(ctx.paths.earliest_hint):
        ctx.snapshots.write_earliest_hint(earliest)
    if ctx.options.retention.outlives_snapshots and not ctx.io.exists(ctx.paths.earliest_changelog_hint):
        ids = ctx.snapshots.changelog_ids()
        if ids:
            ctx.io.write(ctx.paths.earliest_changelog_hint, str(ids[0]).encode())
