"""A cache of the positions that one table records. It reads each snapshot once, while the history is unchanged.

A snapshot never changes, and its manifests name everything before it. So if the newest snapshot of the last look is
unchanged, older ones are unchanged too, and the cache reads only newer snapshots. Otherwise (rolled back, restored,
recreated, expired) it starts empty.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile

from paimon_table import BEFORE_THE_FIRST, Snapshot, SnapshotIdentity, SnapshotStore, snapshots_before
from sinks.commit.positions import OF_PIPELINES, Position, Recorded


class KnownPositions:
    """The newest position of each pipeline that has written a table. Threads may share it."""

    def __init__(
        self,
        snapshots: SnapshotStore,
        recorded: Recorded = OF_PIPELINES,
        may_be: Callable[[Snapshot], bool] = lambda _: True,
    ) -> None:
        """``recorded`` says which positions to search for: those of pipelines or of readings alongside streams.

        If ``may_be`` is false for a snapshot, neither it nor an older one has a position.
        """
        self._snapshots = snapshots
        self.recorded = recorded
        self._may_be = may_be
        self._known = _Known()
        self._seen: Mapping[str, Position] = {}
        self._at = BEFORE_THE_FIRST
        self._lock = threading.Lock()

    @property
    def at(self) -> SnapshotIdentity:
        """The newest snapshot of the table at the last look."""
        return self._at

    def newest(self, *pipelines: str) -> dict[str, Position]:
        """The newest position of each of ``pipelines``, and of each other pipeline with a newer commit than all of
        these."""
        with self._lock:
            self._seen = self._read(pipelines)
        return self.seen(*pipelines)

    def seen(self, *pipelines: str) -> dict[str, Position]:
        """As ``newest``, but as of the last look at the table."""
        found = self._seen
        is_complete = found.keys() >= {*pipelines}
        since = min(found[name].snapshot_id for name in pipelines) if is_complete else 0
        return {name: position for name, position in found.items() if position.snapshot_id >= since}

    def _read(self, wanted: Collection[str]) -> Mapping[str, Position]:
        before, newer = self._known, _Known()
        self._at = BEFORE_THE_FIRST
        for snapshot in self._newest_first(0 if before.newest is None else before.newest.id):
            if newer.newest is None:
                self._at = snapshot.identity
            if snapshot == before.newest:
                self._known = self._filled(newer.above(before), wanted)
                return self._known.by_pipeline
            newer = newer.with_older(snapshot, self.recorded)
            if newer.has(wanted):
                if before.newest is None or snapshot.id <= before.newest.id:
                    self._known = newer
                return newer.by_pipeline  # facts about older snapshots stay valid
        self._known = replace(newer, is_all=True)
        return newer.by_pipeline

    def _newest_first(self, seen_id: int) -> Iterator[Snapshot]:
        """All snapshots, newest first. Prefetching stops at snapshot ``seen_id``, where the caller often stops
        reading."""
        newest = self._snapshots.latest()
        if newest is None:
            return iter(())
        newer = snapshots_before(self._snapshots, newest.id, min(newest.id, seen_id) - 1) if seen_id else ()
        older = snapshots_before(self._snapshots, min(newest.id, seen_id) if seen_id else newest.id)
        return takewhile(self._may_be, chain([newest], newer, older))

    def _filled(self, known: _Known, wanted: Collection[str]) -> _Known:
        """``known``, extended by older snapshots until it has all wanted positions."""
        if known.is_all or known.has(wanted):
            return known
        older: Iterable[Snapshot] = takewhile(self._may_be, snapshots_before(self._snapshots, known.oldest_id))
        for snapshot in older:
            known = known.with_older(snapshot, self.recorded)
            if known.has(wanted):
                return known
        return replace(known, is_all=True)


@dataclass(frozen=True, slots=True)
class _Known:
    """The positions in the snapshots from ``newest`` down to ``oldest_id``."""

    newest: Snapshot | None = None
    oldest_id: int = 0
    is_all: bool = False
    """Whether no snapshot is older than ``oldest_id``."""
    by_pipeline: Mapping[str, Position] = field(default_factory=dict)

    def has(self, wanted: Collection[str]) -> bool:
        return all(name in self.by_pipeline for name in wanted)

    def with_older(self, snapshot: Snapshot, recorded: Recorded) -> _Known:
        """Extended by the next older snapshot."""
        writer, known = recorded.writer_of(snapshot), self.by_pipeline
        position = None if writer is None or writer in known else recorded.position_of(snapshot, writer)
        if writer is not None and position is not None:
            known = {**known, writer: position}
        return _Known(self.newest or snapshot, snapshot.id, False, known)

    def above(self, older: _Known) -> _Known:
        """Joined with ``older``, which ends at the snapshot right below."""
        known = {**older.by_pipeline, **self.by_pipeline}
        return _Known(self.newest or older.newest, older.oldest_id, older.is_all, known)
