"""Removes records that the quarantine no longer needs, a bounded part of the log at a time.

A record is finished if its last fact says that it was dropped or skipped. It is also finished if a table has it and
cannot be rolled back to a state without it, because all earlier snapshots have expired. Pruning removes the payloads of
finished records, and the entries that name only finished records. If an older copy of the table is restored later, only
the topic has these records.
"""

from __future__ import annotations

from collections.abc import Iterable

from pipelines.bad_records.dead_letters import remove_payloads
from pipelines.bad_records.facts import Judge, finished_of
from pipelines.bad_records.log import Applied, Closed, Place, QuarantineLog, Sealed, places_in, places_of

MOST_ENTRIES = 500
"""The most entries that one call checks, the oldest first."""


def prune(log: QuarantineLog, judge: Judge) -> None:
    """Remove finished records and entries. The holder of the checkpoint calls it once everything is settled."""
    log.refresh()
    oldest = sorted(log.entries)[:MOST_ENTRIES]
    finished = {*finished_of(log, judge)}
    if not finished:
        return
    remove_payloads(log, map(log.entries.__getitem__, oldest), finished.__contains__)
    log.remove(_needless(log, oldest, finished))


def _needless(log: QuarantineLog, oldest: Iterable[int], finished: set[Place]) -> list[int]:
    """The entries that name only finished records, unless an older entry would open these records again.

    The newest entry stays, so that no number is used twice.
    """
    kept: set[Place] = set()
    gone: list[int] = []
    for number in oldest:
        entry = log.entries[number]
        places = {*places_in(places_of(entry))}
        is_plain = isinstance(entry, Applied | Closed) or (isinstance(entry, Sealed) and not entry.rebuild)
        if is_plain and number != max(log.entries) and places <= finished and not places & kept:
            gone.append(number)
        else:
            kept |= places
    return gone
