"""Which snapshots and changelogs expire: the end of their range, and what limits it.

Implements Paimon's rule for expiry. Pure, except that it requests the times of snapshots one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from paimon_table.options.retention_options import RetentionOptions

TimeOf = Callable[[int], int | None]
"""Returns the time of a snapshot by its id; None for a missing one."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many are kept, for how long, and how many expire at once."""

    least: int
    most: int
    time_ms: int
    at_once: int

    @staticmethod
    def of_snapshots(options: RetentionOptions) -> Limits:
        return Limits(
            options.snapshot_num_min, options.snapshot_num_max, options.snapshot_time_ms, options.snapshot_expire_limit
        )

    @staticmethod
    def of_changelogs(options: RetentionOptions) -> Limits:
        return Limits(
            options.least_changelogs,
            options.most_changelogs,
            options.longest_changelog_ms,
            options.snapshot_expire_limit,
        )


@dataclass(frozen=True, slots=True)
class Keeper:
    """A reader that needs a snapshot and all later ones."""

    snapshot_id: int
    text: str


@dataclass(frozen=True, slots=True)
class End:
    """Everything before ``id`` expires; ``keeper`` is who keeps more than the options ask for, if anybody does."""

    id: int
    keeper: Keeper | None = None

    def before(self, keepers: Iterable[Keeper]) -> End:
        """The end before the snapshots that these need."""
        first = min(keepers, key=lambda keeper: keeper.snapshot_id, default=None)
        return self if first is None or first.snapshot_id >= self.id else End(first.snapshot_id, first)


def end_of_snapshots(
    earliest: int, latest: int, limits: Limits, keepers: Iterable[Keeper], time_of: TimeOf, now_ms: int
) -> End:
    """The first snapshot of [earliest, latest] that stays; ``earliest`` itself if nothing expires.

    The newest ``least`` always stay. Of the others, at most ``most`` stay: those that were the newest at some moment of
    the retained time.
    """
    lowest = max(latest - limits.most + 1, earliest)
    end = End(min(latest - limits.least + 1, earliest + limits.at_once)).before(keepers)
    for snapshot_id in range(lowest, end.id):
        followed_ms = time_of(snapshot_id + 1)
        if followed_ms is not None and followed_ms >= now_ms - limits.time_ms:
            return End(snapshot_id)
    return replace(end, id=max(end.id, earliest))


def end_of_changelogs(
    earliest: int,
    last: int,
    latest_snapshot: int,
    limits: Limits,
    keepers: Iterable[Keeper],
    time_of: TimeOf,
    now_ms: int,
) -> End:
    """The first long-lived changelog of [earliest, last] that stays; the last one always does.

    ``time_of`` returns the times of changelogs.
    """
    lowest = max(latest_snapshot - limits.most + 1, earliest)
    end = End(min(latest_snapshot - limits.least + 1, earliest + limits.at_once, last)).before(keepers)
    for snapshot_id in range(lowest, end.id + 1):
        own_ms = time_of(snapshot_id)
        if own_ms is not None and own_ms >= now_ms - limits.time_ms:
            return End(max(snapshot_id, earliest))
    return replace(end, id=max(end.id, earliest))
