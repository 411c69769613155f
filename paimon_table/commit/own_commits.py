"""What a user has committed to a table already, so that a commit that is repeated is found and not done again."""

from __future__ import annotations

from paimon_table.commit.delta import Commit
from paimon_table.commit.rolled_back_base import is_rolled_back
from paimon_table.errors import CommitOutcomeUnknown
from paimon_table.metadata.snapshot import CommitKind, Snapshot, SnapshotStore

CLOCK_SKEW_MS = 600_000
"""How far the clocks of two committers may be apart when a commit's start is compared with snapshot times."""


class OwnCommits:
    """The commits of one user, as far as the table was looked through; each snapshot is looked at once."""

    def __init__(
        self,
        snapshots: SnapshotStore,
        root: str,
        user: str,
        *,
        is_new_user: bool = False,
        others_up_to: int = 0,
        first_new: int | None = None,
        has_told: bool = False,
    ) -> None:
        """The options say what needs no look, as for ``Table.new_commit``."""
        self.newest: Snapshot | None = None
        self.is_any_gone = False
        """Whether a commit of the user was seen to be in the table, and then not to be there any more."""
        self._snapshots = snapshots
        self._root = root
        self._user = user
        self._is_new_user = is_new_user
        self._searched_id = others_up_to
        self._first_new = first_new
        self._has_told = has_told
        self._is_trying = False
        """Whether a snapshot may have been published of which nobody has said so."""

    def forget(self) -> None:
        """The table was rolled back or made anew: what was seen may be gone."""
        self.is_any_gone |= is_rolled_back(self._snapshots, self.newest)
        self.newest, self._searched_id = None, 0

    def search(self, latest_id: int, started_ms: int | None, identifier: int | None = None) -> None:
        """Look through the snapshots that have appeared since the last search; ``started_ms`` as for a commit.

        ``identifier`` is the commit that it is about. CommitOutcomeUnknown where expired snapshots could be of it.
        """
        if latest_id < self._searched_id:
            self.forget()
        if self._is_new_user:
            self._is_new_user, self._searched_id = False, latest_id
        since_ms = None if started_ms is None else started_ms - CLOCK_SKEW_MS
        found = self._snapshots.search_user(self._user, latest_id, self._searched_id, since_ms)
        if not found.exhaustive and not self._is_ours_alone(identifier):
            raise CommitOutcomeUnknown(
                f"snapshots of {self._root} in which user {self._user} might have committed have expired, so whether"
                " this commit is in the table is not known, and no other try can tell. Fill a new table in its place"
                " (of a pipeline: another `into` with `backfill: true`). All that write or expire the table should keep"
                f" snapshots (snapshot.time-retained) for longer than {CLOCK_SKEW_MS // 60_000} minutes; a commit that"
                " is begun when the oldest snapshot is older than that is told from all others"
            )
        self._has_told |= found.exhaustive
        self.newest = found.newest or self.newest
        self._searched_id = latest_id
        self._is_trying = False

    def _is_ours_alone(self, identifier: int | None) -> bool:
        """Whether nobody else can have begun this commit, and no try of it here has an outcome that is not known.

        That nobody can is what somebody says who may be wrong: the table must have told once that nobody has.
        """
        is_new = identifier is not None and self._first_new is not None and identifier >= self._first_new
        return is_new and self._has_told and not self._is_trying

    def has(self, request: Commit, kind: CommitKind, latest_id: int) -> bool:
        """Whether the newest snapshot of the user shows that the part was published, by whichever process."""
        self.search(latest_id, request.started_ms, request.identifier)
        if self.newest is None or self.newest.commit_identifier < request.identifier:
            return False
        if kind is not CommitKind.COMPACT or self.newest.commit_identifier > request.identifier:
            return True
        return self.newest.commit_kind is CommitKind.COMPACT

    def trying(self) -> None:
        """A snapshot is about to be published: until ``add`` or ``lost`` nobody knows whether it is there."""
        self._is_trying = True

    def lost(self) -> None:
        """The snapshot was not published."""
        self._is_trying = False

    def add(self, snapshot: Snapshot) -> None:
        """The user has published the newest snapshot of the table."""
        self.newest = snapshot
        self._searched_id = snapshot.id
        self._is_trying = False
