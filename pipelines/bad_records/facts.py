"""Which records of a quarantine are open: those whose last fact marks them as bad.

A fact that a table has a record counts as long as the table has the snapshot that added it. A table that was rolled
back to an earlier snapshot, restored from an older copy or recreated has lost the record, so the record is open again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import numpy as np

from paimon_table import CLOCK_SKEW_MS, Catalog, Snapshot, Table, TableName
from pipelines.bad_records.log import (
    Applied,
    Closed,
    Evidence,
    Place,
    QuarantineLog,
    Sealed,
    Stretches,
    Switched,
    Voided,
    places_in,
    places_of,
    stretches,
)

OpenOffsets: TypeAlias = Mapping[tuple[str, int], np.ndarray]
"""Per (topic, partition) rising offsets of open records."""

_NO_TIME = -(1 << 62)
_CLOSED, _FINISHED = -1, -2
"""Replaces the file of a record that is not open. A finished record stays closed, whatever happens to its table."""


class Judge(Protocol):
    """Answers questions about the contents of tables."""

    def holds(self, evidence: Evidence) -> bool:
        """Whether the snapshot is in the line of the table, as far as known."""
        ...

    def committed(self, sealed: Sealed, table: str) -> Evidence | None:
        """The snapshot with which a table got a step; None if it did not, or if that is unknown."""
        ...

    def is_final(self, evidence: Evidence) -> bool:
        """Whether the table can no longer lose the snapshot by a rollback: all earlier snapshots have expired."""
        ...


@dataclass(frozen=True, slots=True)
class Facts:
    """Records, in order of (topic, id, partition), offset and time: parallel arrays."""

    files: tuple[tuple[str, str], ...]
    """(Step, name) of the files."""
    keys: tuple[tuple[str, str, int], ...]
    """(Topic, id of the topic, partition)."""
    key: np.ndarray
    offset: np.ndarray
    ts: np.ndarray
    file: np.ndarray
    entry: np.ndarray
    """The number of the entry that sealed each."""

    def __len__(self) -> int:
        return len(self.key)

    @property
    def file_count(self) -> int:
        """How many files have open records."""
        return len(np.unique(self.file))

    def place(self, at: int) -> Place:
        """The record at an index of the arrays."""
        ts, (topic, topic_id, partition) = int(self.ts[at]), self.keys[self.key[at]]
        return Place(topic, topic_id, partition, int(self.offset[at]), None if ts == _NO_TIME else ts)

    def places(self) -> Iterator[Place]:
        return map(self.place, range(len(self)))

    def newest(self, count: int) -> Facts:
        """The ``count`` records that were sealed last, or all if there are fewer."""
        return self._among(np.sort(np.argsort(self.entry, kind="stable")[max(0, len(self) - count) :]))

    def in_file_order(self) -> Facts:
        """The same records in the form that is fastest to read; ``at`` and ``offsets`` need them in order."""
        return self._among(np.argsort(self.file, kind="stable"))

    def of_step(self, step: str) -> Facts:
        """The records that a step has sealed last."""
        return self._among(
            np.flatnonzero(np.isin(self.file, [n for n, (of, _) in enumerate(self.files) if of == step]))
        )

    def by_file(self) -> Iterator[tuple[tuple[str, str], Facts]]:
        """The records of each file that has some."""
        order = np.argsort(self.file, kind="stable")
        ends = np.flatnonzero(np.diff(self.file[order])) + 1
        for at in np.split(order, ends) if len(order) else ():
            yield self.files[self.file[at[0]]], self._among(at)

    def _among(self, at: np.ndarray) -> Facts:
        return replace(
            self, key=self.key[at], offset=self.offset[at], ts=self.ts[at], file=self.file[at], entry=self.entry[at]
        )

    def at(self, place: Place, topic_ids: Mapping[str, str] | None = None) -> int | None:
        """The index of a record.

        With ``topic_ids`` also if the id of its topic was unknown, or is not one of ``topic_ids``.
        """
        time = _NO_TIME if place.ts is None else place.ts
        for number, (topic, topic_id, partition) in enumerate(self.keys):
            is_same_id = topic_id == place.topic_id or (topic_ids is not None and _may_be(topic, topic_id, topic_ids))
            if (topic, partition) == (place.topic, place.partition) and is_same_id:
                first, last = np.searchsorted(self.key, [number, number + 1])
                begin = first + int(np.searchsorted(self.offset[first:last], place.offset))
                for at in range(begin, last):
                    if self.offset[at] != place.offset:
                        break
                    if self.ts[at] == time:
                        return at
        return None

    def offsets(self, topic_ids: Mapping[str, str]) -> OpenOffsets:
        """Per (topic, partition) the rising offsets; without records of topics that were recreated since."""
        found: defaultdict[tuple[str, int], list[np.ndarray]] = defaultdict(list)
        for number, (topic, topic_id, partition) in enumerate(self.keys):
            if _may_be(topic, topic_id, topic_ids):
                first, last = np.searchsorted(self.key, [number, number + 1])
                if last > first:
                    found[topic, partition].append(self.offset[first:last])
        return {place: np.unique(np.concatenate(of)) for place, of in found.items()}


def _may_be(topic: str, topic_id: str, topic_ids: Mapping[str, str]) -> bool:
    """Whether a topic with this id may be the present topic."""
    return not topic_id or topic_ids.get(topic, topic_id) == topic_id


@dataclass(slots=True)
class _Rows:
    """Facts in their order, the newest last."""

    files: list[tuple[str, str]] = field(default_factory=list)
    keys: dict[tuple[str, str, int], int] = field(default_factory=dict)
    parts: list[np.ndarray] = field(default_factory=list)
    """Each with the rows key, offset, time, file and entry."""

    def seal(self, sealed: Sealed, number: int) -> None:
        for name, places in sealed.bad.items():
            self.files.append((sealed.step, name))
            self.add(places, len(self.files) - 1, number)

    def close(self, places: Stretches, *, is_final: bool) -> None:
        self.add(places, _FINISHED if is_final else _CLOSED, 0)

    def add(self, places: Stretches, file: int, number: int) -> None:
        for stretch in places:
            count = len(stretch.offsets)
            key = self.keys.setdefault((stretch.topic, stretch.topic_id, stretch.partition), len(self.keys))
            ts = [_NO_TIME if ts is None else ts for ts in stretch.ts]
            self.parts.append(
                np.array([[key] * count, stretch.offsets, ts, [file] * count, [number] * count], np.int64)
            )

    def facts(self) -> Facts:
        names = sorted(self.keys)
        rank = np.empty(len(names), np.int64)
        for position, name in enumerate(names):
            rank[self.keys[name]] = position
        rows = np.concatenate(self.parts, axis=1) if self.parts else np.empty((5, 0), np.int64)
        rows[0] = rank[rows[0]]
        key, offset, ts = rows[:3]
        rows = rows[:, np.lexsort((ts, offset, key))]  # equal ones stay in their order
        is_last = np.ones(rows.shape[1], bool)
        is_last[:-1] = (rows[:3, 1:] != rows[:3, :-1]).any(axis=0)
        return Facts(tuple(self.files), tuple(names), *rows[:, is_last])


def facts_of(log: QuarantineLog, judge: Judge) -> Facts:
    """The open records, given the present state of the tables."""
    return (last := _last_facts(log, judge))._among(np.flatnonzero(last.file >= 0))


def finished_of(log: QuarantineLog, judge: Judge) -> Iterator[Place]:
    """The finished records: dropped, skipped, or in a table that cannot be rolled back to a state without them."""
    return (last := _last_facts(log, judge))._among(np.flatnonzero(last.file == _FINISHED)).places()


def _last_facts(log: QuarantineLog, judge: Judge) -> Facts:
    """The last fact about each record."""
    rows, rebuilds = _Rows(), defaultdict[str, list[tuple[int, Sealed]]](list)
    counting, noted = _counting(log, judge)
    for number, entry in sorted(log.entries.items()):
        match entry:
            case Sealed() if entry.rebuild:
                rebuilds[entry.rebuild].append((number, entry))
            case Sealed():
                rows.seal(entry, number)
                for table, places in entry.good.items():
                    evidence = None if (entry.step, table) in noted else judge.committed(entry, table)
                    if evidence is not None:
                        rows.close(places, is_final=judge.is_final(evidence))
            case Applied() if number in counting:
                rows.close(entry.places, is_final=judge.is_final(entry.evidence))
            case Closed():
                rows.close(entry.places, is_final=True)
            case Switched() if number in counting:
                for sealed_number, sealed in rebuilds[entry.rebuild]:
                    rows.seal(sealed, sealed_number)
                    for places in sealed.good.values():
                        rows.close(places, is_final=judge.is_final(entry.evidence))
    return rows.facts()


def settle(log: QuarantineLog, judge: Judge) -> None:
    """Record the present facts in tables that expired snapshots may hide later.

    These are the commits of a killed process, and rollbacks. Only the holder of the checkpoint calls it.
    """
    log.refresh()
    counting, noted = _counting(log, judge)
    voided = log.voided
    gone = [n for n, e in log.entries.items() if isinstance(e, Applied | Switched) and n not in counting | voided]
    if gone:
        log.append(Voided(entries=tuple(sorted(gone))))
    for number, entry in sorted(log.entries.items()):
        if not isinstance(entry, Sealed) or entry.rebuild:
            continue
        for table, places in entry.good.items():
            evidence = None if (entry.step, table) in noted else judge.committed(entry, table)
            left = None if evidence is None else _without_later(log, number, places)
            if evidence is not None and left:
                log.append(Applied(by=entry.step, evidence=evidence, places=left))


def _counting(log: QuarantineLog, judge: Judge) -> tuple[frozenset[int], set[tuple[str, str]]]:
    """The entries whose snapshots the tables have, and the (step, table) pairs that one of them marks as applied."""
    voided = log.voided
    found = {
        number: entry
        for number, entry in log.entries.items()
        if isinstance(entry, Applied | Switched) and number not in voided and judge.holds(entry.evidence)
    }
    return frozenset(found), {(e.by, e.evidence.table) for e in found.values() if isinstance(e, Applied)}


def _without_later(log: QuarantineLog, number: int, places: Stretches) -> Stretches:
    """The ``places`` that no entry after ``number`` names."""
    behind = (entry for other, entry in log.entries.items() if other > number)
    later = {place for entry in behind for place in places_in(places_of(entry))}
    return stretches(place for place in places_in(places) if place not in later)


class TableJudge:
    """``Judge`` by the snapshots of tables; it reads those of a table once, at the first question about it."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._tables: dict[str, tuple[Table | None, int, int]] = {}
        """By identifier: the table, and its oldest and its newest snapshot."""
        self._held: dict[Evidence, bool] = {}
        self._committed: dict[tuple[str, str, int], Evidence | None] = {}

    def holds(self, evidence: Evidence) -> bool:
        if evidence not in self._held:
            self._held[evidence] = self._holds(evidence)
        return self._held[evidence]

    def is_final(self, evidence: Evidence) -> bool:
        table, earliest, _ = self._table_and_ends(evidence.table)
        return table is not None and table.created_ms == evidence.created_ms and earliest > evidence.snapshot_id

    def committed(self, sealed: Sealed, table: str) -> Evidence | None:
        key = (table, sealed.user, sealed.number)
        if key not in self._committed:
            self._committed[key] = self._search(sealed, table)
        return self._committed[key]

    def _holds(self, evidence: Evidence) -> bool:
        table, earliest, latest = self._table_and_ends(evidence.table)
        if table is None or table.created_ms != evidence.created_ms or latest < evidence.snapshot_id:
            return False
        if earliest > evidence.snapshot_id:
            return True
        found = table.snapshots.find_unless_lost(evidence.snapshot_id)
        if found is None:  # it has expired in the meantime
            return (table.snapshots.earliest_id() or 0) > evidence.snapshot_id
        return found.time_ms == evidence.time_ms

    def _search(self, sealed: Sealed, identifier: str) -> Evidence | None:
        table, _, _ = self._table_and_ends(identifier)
        found = None if table is None else found_commit(table, sealed)
        return None if table is None or found is None else evidence_of(identifier, table, found)

    def _table_and_ends(self, identifier: str) -> tuple[Table | None, int, int]:
        if identifier not in self._tables:
            table = self._catalog.find(TableName.of(identifier)) if "." in identifier else None
            ends = (0, 0) if table is None else (table.snapshots.earliest_id() or 0, table.snapshots.latest_id() or 0)
            self._tables[identifier] = table, *ends
        return self._tables[identifier]


def found_commit(table: Table, sealed: Sealed) -> Snapshot | None:
    """The first snapshot of a step's commit to a table; None if there is none, or it has expired."""
    snapshots, found = table.snapshots, None
    for snapshot in snapshots.newest_first() if sealed.user else ():
        if sealed.since_ms is not None and snapshot.time_ms < sealed.since_ms - CLOCK_SKEW_MS:
            break
        if snapshot.commit_user == sealed.user and snapshot.commit_identifier <= sealed.number:
            if snapshot.commit_identifier < sealed.number:
                break
            found = snapshot
    return found


def evidence_of(identifier: str, table: Table, snapshot: Snapshot) -> Evidence:
    """A snapshot of a table in the form of an entry."""
    return Evidence(table=identifier, created_ms=table.created_ms, snapshot_id=snapshot.id, time_ms=snapshot.time_ms)
