"""Finds the commits that a table already has, so that a repeated commit is not done again."""

from __future__ import annotations

from typing import Protocol

from paimon_table.commit.delta import Commit
from paimon_table.errors import CommitOutcomeUnknown
from paimon_table.metadata.snapshot import CommitKind, Snapshot, SnapshotStore

CLOCK_SKEW_MS = 600_000
"""The largest difference between the clocks of two committers, for comparing a commit's start with snapshot times."""


class OwnCommits(Protocol):
    """The questions of a committer before it publishes; called in one thread."""

    def find(self, request: Commit, kind: CommitKind, latest: Snapshot | None) -> Snapshot | None:
        """The snapshot that proves that some process published a part; ``latest`` is the table's newest snapshot.

        Raises CommitOutcomeUnknown if an expired snapshot may be the snapshot of the part.
        """
        ...

    def newest(self, latest: Snapshot | None, started_ms: int | None = None) -> Snapshot | None:
        """The newest of these commits; ``started_ms`` as for a commit. Raises as ``find``."""
        ...

    def forget(self) -> None:
        """Forget all snapshots, because the table was rolled back or recreated."""
        ...

    def trying(self) -> None:
        """Note that a snapshot is about to be published: its outcome is unknown until ``add`` or ``lost``."""
        ...

    def lost(self) -> None:
        """Note that the snapshot was not published."""
        ...

    def add(self, snapshot: Snapshot) -> None:
        """Note that the snapshot was published, and is the newest of the table."""
        ...


def outcome_unknown(root: str, user: str) -> CommitOutcomeUnknown:
    """The error for a commit if the snapshots that would show it have expired."""
    return CommitOutcomeUnknown(
        f"cannot tell whether this commit of user {user} is in {root}: the snapshots that would show it have expired, "
        "and a retry will not help. Fill a new table instead (in a pipeline: another `into` with "
        "`backfill: true`). From then on, keep snapshots for longer than "
        f"{CLOCK_SKEW_MS // 60_000} minutes (snapshot.time-retained) in every job that writes or expires the table"
    )


class CommitsOfUser:
    """The commits of one user by their rising identifiers; reads each snapshot once."""

    def __init__(
        self, snapshots: SnapshotStore, root: str, user: str, *, is_new_user: bool = False, after: int = 0
    ) -> None:
        """The parameters limit the search, as for ``Table.new_commit``."""
        self._newest: Snapshot | None = None
        self._snapshots = snapshots
        self._root = root
        self._user = user
        self._is_new_user = is_new_user
        self._searched_id = after

    def newest(self, latest: Snapshot | None, started_ms: int | None = None) -> Snapshot | None:
        """As ``OwnCommits``; reads the snapshots since the last call."""
        latest_id = 0 if latest is None else latest.id
        if latest_id < self._searched_id:
            self.forget()
        if self._is_new_user:
            self._is_new_user, self._searched_id = False, latest_id
        since_ms = None if started_ms is None else started_ms - CLOCK_SKEW_MS
        found = self._snapshots.search_user(self._user, latest_id, self._searched_id, since_ms)
        if not found.exhaustive:
            raise outcome_unknown(self._root, self._user)
        self._newest = found.newest or self._newest
        self._searched_id = latest_id
        return self._newest

    def find(self, request: Commit, kind: CommitKind, latest: Snapshot | None) -> Snapshot | None:
        """As ``OwnCommits``: the table has a commit if the user's newest snapshot has its identifier or a higher
        one."""
        newest = self.newest(latest, request.started_ms)
        if newest is None or newest.commit_identifier < request.identifier:
            return None
        is_later = newest.commit_identifier > request.identifier
        return newest if is_later or kind is not CommitKind.COMPACT or newest.commit_kind is kind else None

    def forget(self) -> None:
        self._newest, self._searched_id = None, 0

    def trying(self) -> None:
        """Nothing to note: the search shows the outcome of the commit."""

    def lost(self) -> None:
        """Nothing to note."""

    def add(self, snapshot: Snapshot) -> None:
        self._newest = snapshot
        self._searched_id = snapshot.id
