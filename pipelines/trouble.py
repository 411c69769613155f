"""Failures of one pipeline: whether they are transient, how long they last, when to retry. Decides; does nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from paimon_table.errors import CommitConflict, CommitOutcomeUnknown, Outage
from paimon_table.storage.outages import passes
from sources.kafka.lost_records import TopicsChanged

FIRST_WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a failure to end, and the longest wait between two tries."""

    max_elapsed_s: float
    max_wait_s: float


@dataclass(frozen=True, slots=True)
class Trouble:
    """What hinders a pipeline since ``since_s``, after ``tries`` failed ones; times are readings of one clock."""

    what: str
    public_what: str
    """The same without values of rows."""
    since_s: float
    tries: int = 0
    next_s: float = 0.0

    def failed_again(self, what: str, public_what: str, now_s: float, patience: Patience) -> Trouble | None:
        """The same after one more failure, with the time of the next try; None when patience is at its end."""
        wait_s = min(patience.max_wait_s, FIRST_WAIT_S * 2.0 ** min(self.tries, 30))
        next_s = min(now_s + wait_s, max(now_s, self.since_s + patience.max_elapsed_s))
        if now_s >= self.since_s + patience.max_elapsed_s:
            return None
        return replace(self, what=what, public_what=public_what, tries=self.tries + 1, next_s=next_s)


def may_pass(error: BaseException) -> bool:
    """Whether the pipeline can continue from its checkpoint by itself once the cause is gone."""
    if isinstance(error, OSError):
        return passes(error)
    return isinstance(error, Outage | CommitConflict | CommitOutcomeUnknown | TopicsChanged)
