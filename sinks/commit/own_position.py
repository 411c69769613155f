"""The position of a pipeline, or of a reading alongside its stream, in a table. The newest one shows which rows the
table has.

docs/INVARIANTS.md, E1 to E4, has the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from paimon_table import (
    CLOCK_SKEW_MS,
    Commit,
    CommitKind,
    Snapshot,
    SnapshotIdentity,
    SnapshotStore,
    Table,
    outcome_unknown,
)
from sinks.commit.known_positions import KnownPositions
from sinks.commit.positions import Position, TopicPartition, may_have_expired, of_reading


@dataclass(frozen=True, slots=True)
class Step:
    """The position after a commit: the end of a batch or of a slice."""

    number: int
    """The number of the batch or slice; it rises for one commit user."""
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The next offset to read, for each partition that feeds the table."""

    def is_in(self, position: Position, user: str, *, by_offsets: bool) -> bool:
        """Whether a table at ``position`` has the rows of the step; ``position`` is valid in the existing topics.

        ``by_offsets``: the source gives each offset once, in order. If not, or if the step has no end offsets, the
        numbers of the steps decide.
        """
        if by_offsets and self.ends:
            return all(position.offsets.get(place, 0) >= end for place, end in self.ends.items())
        return position.writer == user and position.commit_identifier >= self.number


class OwnPosition:
    """The newest position of a pipeline, or of a reading, in a table, for a ``TableCommit``; reads each snapshot once.

    If all snapshots of the pipeline have expired, the position is the last one that this process saw.
    """

    def __init__(
        self,
        snapshots: SnapshotStore,
        known: KnownPositions,
        name: str,
        user: str,
        *,
        by_offsets: bool,
        counted: Callable[[Position], Position] = lambda position: position,
        has_written: Callable[[], bool] = lambda: True,
        noted_at: int = 0,
    ) -> None:
        """``name`` names the pipeline, or a reading alongside its stream; ``known`` has the position under this name.

        ``counted`` reduces a recorded position to the part that is valid for this checkpoint and these topics.
        ``has_written`` says whether an expired snapshot may have held a position; it is called if no snapshot shows
        one. ``noted_at`` is the last snapshot in which an earlier process has seen a position, 0 if that is not known.
        """
        self.position: Position | None = None
        """As of the last look or commit."""
        self.base: Position | None = None
        """The position that the current work builds on; an own commit moves it."""
        self.step = Step(0)
        """The step that is being committed."""
        self._snapshots = snapshots
        self._known = known
        self._name = name
        self._user = user
        self._by_offsets = by_offsets
        self._counted = counted
        self._has_written = has_written
        self._noted_at = noted_at
        self._at: SnapshotIdentity | None = None
        self._has_looked = False
        self._is_hidden = False
        """Whether snapshots that may have held a newer position have expired unseen."""
        self._is_trying = False

    def look(self, latest: Snapshot | None) -> Position | None:
        """The newest position of the table, whose newest snapshot is ``latest``; None if it has none."""
        at = None if latest is None else latest.identity
        if at != self._at or not self._has_looked:
            found = self._known.newest(self._name).get(self._name)
            self._is_hidden = found is None and self._may_have_expired() and self._has_written()
            self._noted_at = self._noted_at if found is None else found.snapshot_id
            if not self._is_hidden:
                self.position = found
            self._at, self._has_looked = at, True
        return self.position

    def _may_have_expired(self) -> bool:
        return may_have_expired(self._snapshots.earliest_id(), self._noted_at)

    @property
    def is_hidden(self) -> bool:
        """Whether the table does not show a position although it may have one; as of the last look."""
        return self._is_hidden

    def has_rows(self, step: Step) -> bool:
        """Whether the table has the rows of a step, as of the last look or commit."""
        position = None if self.position is None else self._counted(self.position)
        return position is not None and step.is_in(position, self._user, by_offsets=self._by_offsets)

    def has_step(self, number: int, latest: Snapshot | None, started_ms: int | None) -> bool:
        """Whether the newest commit of this commit user is of a step, or of a later one. Raises as ``find``."""
        position = self.look(latest)
        self._check_visible(latest, started_ms)
        return position is not None and position.writer == self._user and position.commit_identifier >= number

    def find(self, request: Commit, kind: CommitKind, latest: Snapshot | None) -> Snapshot | None:
        """See ``OwnCommits``: the table has the rows if the position covers the step, whichever process committed
        them."""
        position = self.look(latest)
        self._check_visible(latest, request.started_ms)
        if position is None:
            return None
        if kind is CommitKind.COMPACT:
            is_there = position.writer == self._user and (
                position.commit_identifier > request.identifier
                or (position.commit_identifier == request.identifier and position.commit_kind is kind)
            )
        else:
            is_there = self.has_rows(self.step)
        return self._at_position(position, latest) if is_there else None

    def _check_visible(self, latest: Snapshot | None, started_ms: int | None) -> None:
        """CommitOutcomeUnknown if an expired snapshot may be the step's own, and only this snapshot would show it."""
        if not self._is_hidden or (self.position is not None and not self._is_trying):
            return  # only this process committed after the seen position, and it knows its commits
        since_ms = None if started_ms is None else started_ms - CLOCK_SKEW_MS
        found = self._snapshots.search_user(self._user, None if latest is None else latest.id, since_ms=since_ms)
        if not found.exhaustive:
            raise outcome_unknown(self._snapshots.paths.root, self._user)

    def newest(self, latest: Snapshot | None, started_ms: int | None = None) -> Snapshot | None:
        """See ``OwnCommits``."""
        position = self.look(latest)
        return None if position is None else self._at_position(position, latest)

    def _at_position(self, position: Position, latest: Snapshot | None) -> Snapshot | None:
        if latest is not None and latest.id == position.snapshot_id:
            return latest  # which was just read
        return self._snapshots.find(position.snapshot_id)

    def forget(self) -> None:
        self.position, self._has_looked = None, False

    def trying(self) -> None:
        self._is_trying = True

    def lost(self) -> None:
        self._is_trying = False

    def add(self, snapshot: Snapshot) -> None:
        self.base = self.position = self._known.recorded.position_of(snapshot, self._name) or self.position
        self._at, self._has_looked, self._noted_at = snapshot.identity, True, snapshot.id
        self._is_hidden = self._is_trying = False


PropertiesOf = Callable[[Position], Mapping[str, str]]
"""Gives the snapshot properties of a commit up to a position."""


@dataclass(frozen=True, slots=True)
class OwnReading:
    """A reading alongside the stream; its snapshots carry its own position and leave the pipeline's position
    unchanged."""

    properties_of: PropertiesOf
    """The properties of its snapshots."""
    by_offsets: bool = True
    """Whether its position has offsets. Otherwise the numbers of its slices show which slices the table has."""
    since_ms: int | None = None
    """The start of the reading: the search for its earlier slices ends there. None: each slice is independent."""
    after: Mapping[str, int] = field(default_factory=dict)
    """By table, a snapshot that is older than the commit of the next slice."""

    def position_in(self, table: Table, identifier: str, user: str) -> OwnPosition:
        """Its position in a table, to which other writers may commit between its slices."""
        snapshots, after = table.snapshots, self.after.get(identifier, 0)
        since_ms = None if self.since_ms is None else self.since_ms - CLOCK_SKEW_MS

        def may_be(snapshot: Snapshot) -> bool:
            return snapshot.id > after if since_ms is None else snapshot.time_ms >= since_ms

        return OwnPosition(
            snapshots,
            KnownPositions(snapshots, of_reading(user), may_be),
            user,
            user,
            by_offsets=self.by_offsets,
            has_written=lambda: (snapshots.earliest_id() or 0) > after + 1,
        )


def has_step(table: Table, pipeline: str, commit_user: str, number: int, started_ms: int | None) -> bool:
    """Whether the newest commit of a pipeline in a table is step ``number`` of a commit user, or a later one.

    For dump files, where only the number of a step shows whether the table has it. Raises CommitOutcomeUnknown if the
    snapshots that would show it have expired.
    """
    snapshots = table.snapshots
    own = OwnPosition(snapshots, KnownPositions(snapshots), pipeline, commit_user, by_offsets=False)
    return own.has_step(number, snapshots.latest(), started_ms)
