"""Removes what the quarantine no longer needs, a bounded part of the log at a time.

A record is finished when its last fact says that it was dropped or skipped. It is also finished when a table has it and
cannot go back to a state without it, because all earlier snapshots have expired. The payloads of finished records are
removed, and the entries about finished records alone. If an older copy of the table is restored later, only the topic
has these records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from pipelines.bad_records.dead_letters import BadLine, keep_lines
from pipelines.bad_records.facts import TableJudge
from pipelines.bad_records.log import Applied, Closed, Place, QuarantineLog, Sealed, Stretch, Switched, places_of

MOST_ENTRIES = 500
"""The oldest ones, which one call looks at."""


def prune(log: QuarantineLog, judge: TableJudge) -> None:
    """Remove finished records and entries. The holder of the checkpoint calls it once everything is settled."""
    log.refresh()
    oldest = sorted(log.entries)[:MOST_ENTRIES]
    finished = _finished(log, judge, {place for number in oldest for place in _places(places_of(log.entries[number]))})
    if not finished:
        return
    bare = {place._replace(topic_id="") for place in finished}
    entries = [log.entries[number] for number in oldest]
    for entry in (entry for entry in entries if isinstance(entry, Sealed)):
        for name in entry.bad:
            keep_lines(
                log.io,
                log.path,
                f"{entry.step}/{name}",
                lambda line: not isinstance(line, BadLine) or line.record not in bare,
            )
    log.remove(_needless(log, oldest, finished))


def _finished(log: QuarantineLog, judge: TableJudge, places: set[Place]) -> set[Place]:
    """The records among ``places`` whose last fact is final."""
    last = dict.fromkeys(places, False)
    rebuilds: defaultdict[str, list[Sealed]] = defaultdict(list)
    voided = log.voided

    def note(stretches: Iterable[Stretch], *, is_final: bool) -> None:
        last.update((place, is_final) for place in _places(stretches) if place in last)

    for number, entry in sorted(log.entries.items()):
        match entry:
            case Sealed() if entry.rebuild:
                rebuilds[entry.rebuild].append(entry)
            case Sealed():
                note(places_of(entry), is_final=False)
            case Applied() if number not in voided:
                note(entry.places, is_final=judge.is_final(entry.evidence))
            case Closed():
                note(entry.places, is_final=True)
            case Switched() if number not in voided and judge.holds(entry.evidence):
                for sealed in rebuilds[entry.rebuild]:
                    for of in sealed.bad.values():
                        note(of, is_final=False)
                    for of in sealed.good.values():
                        note(of, is_final=judge.is_final(entry.evidence))
    return {place for place, is_final in last.items() if is_final}


def _needless(log: QuarantineLog, oldest: Iterable[int], finished: set[Place]) -> list[int]:
    """The entries about finished records alone, unless an older entry would open these records again.

    The newest entry stays: numbers are never used twice.
    """
    kept: set[Place] = set()
    gone: list[int] = []
    for number in oldest:
        entry = log.entries[number]
        places = {*_places(places_of(entry))}
        is_plain = isinstance(entry, Applied | Closed) or (isinstance(entry, Sealed) and not entry.rebuild)
        if is_plain and number != max(log.entries) and places <= finished and not places & kept:
            gone.append(number)
        else:
            kept |= places
    return gone


def _places(stretches: Iterable[Stretch]) -> Iterator[Place]:
    return (place for stretch in stretches for place in stretch.places())
