"""Writers that look for their own newest snapshot, to find their earlier commits.

A writer that does not find it knows neither its position nor whether a commit that it repeats is in the table. The
engine does not know the writers: its caller says which snapshot a writer needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from paimon_table.history.retention import Keeper
from paimon_table.metadata.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Claim:
    """A snapshot is kept while it is the newest one with a claim of this key, but no longer than ``time_ms``."""

    key: tuple[str, ...]
    time_ms: int | None
    """Since the snapshot was published; None for ever."""
    text: str
    """What the snapshot is, as in 'kept: ...'."""


Claims = Callable[[Snapshot], Sequence[Claim]]
"""The value of a snapshot to writers."""


def no_claims(_snapshot: Snapshot) -> Sequence[Claim]:
    """No writer looks for any."""
    return ()


def claimed(over: Iterable[Snapshot], newest_first: Iterable[Snapshot], claims: Claims, now_ms: int) -> list[Keeper]:
    """Those of the snapshots that are ``over`` (oldest first) which a writer needs.

    ``newest_first`` are the snapshots that stay, which are looked at until every claim is settled.
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
