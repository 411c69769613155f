"""Claims: snapshots that writers need to find their earlier commits.

Without its newest snapshot, a writer cannot find its position, or whether a repeated commit is in the table. The engine
does not know the writers: its caller says which snapshots they need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from paimon_table.history.retention import Keeper
from paimon_table.metadata.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Claim:
    """Keeps a snapshot while it is the newest one with a claim of this key, but no longer than ``time_ms``."""

    key: tuple[str, ...]
    time_ms: int | None
    """The time since the snapshot was published; None: no limit."""
    text: str
    """What the snapshot is, for the text 'kept: ...'."""


Claims = Callable[[Snapshot], Sequence[Claim]]
"""Returns the claims on a snapshot."""


def no_claims(_snapshot: Snapshot) -> Sequence[Claim]:
    """No writer needs any snapshot."""
    return ()


def claimed(over: Iterable[Snapshot], newest_first: Iterable[Snapshot], claims: Claims, now_ms: int) -> list[Keeper]:
    """The keepers of those snapshots among ``over`` (oldest first) that a writer needs.

    ``newest_first`` are the snapshots that stay; the search reads them until it has settled every claim.
    """
    found: dict[tuple[str, ...], Keeper] = {}
    for snapshot in over:
        for claim in claims(snapshot):
            found.pop(claim.key, None)
            if claim.time_ms is None or snapshot.time_ms >= now_ms - claim.time_ms:
                found[claim.key] = Keeper(snapshot.id, claim.text)
    if found:
        for snapshot in newest_first:
            for claim in claims(snapshot):
                found.pop(claim.key, None)
            if not found:
                break
    return list(found.values())
