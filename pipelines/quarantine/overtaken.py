"""Whether a bad record was overtaken: whether commits after its batch have written the row of its key.

Applying a record that was not overtaken undoes nothing, whatever the table's merge engine. The files that appends have
added show this, for as long as the table has their snapshots.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table import CommitKind, Snapshot, Table
from pipelines.bad_records.log import RETRY, Place, QuarantineLog, Sealed, places_in
from sinks.commit.positions import EMPTIED_PROPERTY

MOST_SNAPSHOTS = 1_000
"""The most snapshots to look back: about an hour of batches of a few seconds."""

Key: TypeAlias = tuple[Any, ...]
"""The values of a row's primary key."""

Steps: TypeAlias = dict[Place, tuple[str, int]]


def steps_of(log: QuarantineLog) -> Steps:
    """By record the commit user and number of the step that first quarantined it; not of retries."""
    log.read()
    found: Steps = {}
    for _, entry in sorted(log.entries.items()):
        if isinstance(entry, Sealed) and entry.user and not entry.step.startswith(RETRY):
            for place in chain.from_iterable(map(places_in, entry.bad.values())):
                found.setdefault(place, (entry.user, entry.number))
    return found


class History:
    """The commits to a table, read back as far as callers need and the history is complete."""

    def __init__(self, table: Table, but_by: str = "") -> None:
        """Commits of user ``but_by``, who is the caller, do not count."""
        self._table = table
        self._but_by = but_by
        self._newest_first = table.snapshots.newest_first()
        self._seen: list[Snapshot] = []
        self._touched: dict[tuple[int, frozenset[Key]], frozenset[Key]] = {}

    def before(self, user: str, number: int) -> int | None:
        """The newest snapshot before a step, 0 if there is none; None if later commits may be missing."""
        for snapshot in self._back():
            if snapshot.commit_user == user and snapshot.commit_identifier < number:
                return snapshot.id
        is_whole = self._seen and self._seen[-1].id == 1 and not _is_emptied(self._seen[-1])
        return 0 if is_whole else None

    def _back(self) -> Iterator[Snapshot]:
        """The snapshots, the newest first, up to where the table was overwritten, or its source truncated.

        A TRUNCATE deletes the rows that the table has, but not the row of an earlier record in the quarantine.
        """
        yield from self._seen
        while len(self._seen) < MOST_SNAPSHOTS:
            snapshot = next(self._newest_first, None)
            if snapshot is None:
                return
            if snapshot.commit_kind is CommitKind.OVERWRITE:
                self._newest_first = iter(())
                return
            self._seen.append(snapshot)
            if _is_emptied(snapshot):
                self._newest_first = iter(())
            yield snapshot

    def touched_since(self, snapshot_id: int, keys: Collection[Key]) -> frozenset[Key]:
        """The ``keys`` whose rows were written or deleted by commits after a snapshot."""
        asked = snapshot_id, frozenset(keys)
        if asked not in self._touched:
            self._touched[asked] = frozenset(self._found(*asked))
        return self._touched[asked]

    def _found(self, snapshot_id: int, keys: frozenset[Key]) -> Iterator[Key]:
        names = self._table.schema.primary_keys
        first = [key[0] for key in keys]
        for snapshot in self._seen:
            if snapshot.id > snapshot_id and snapshot.commit_user != self._but_by:
                for rows in self._table.appended_rows(snapshot, names):
                    column = rows.column(names[0])
                    near = rows.filter(pc.is_in(column, value_set=pa.array(first, column.type)))
                    yield from keys.intersection(keys_of(near, names))


def _is_emptied(snapshot: Snapshot) -> bool:
    return EMPTIED_PROPERTY in (snapshot.properties or {})


def keys_of(rows: pa.Table, names: Sequence[str]) -> list[Key]:
    """The key of each row."""
    return list(zip(*(rows.column(name).to_pylist() for name in names), strict=True))
