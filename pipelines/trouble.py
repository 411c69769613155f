"""Failures of one pipeline: whether they are transient, how long they last, when to retry. Decides; does nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from paimon_table.errors import CommitConflict, CommitOutcomeUnknown, Outage
from paimon_table.patience import Patience
from paimon_table.storage.outages import passes
from pipelines.tables.table_failure import TableContinued
from sources.kafka.lost_records import TopicsChanged


@dataclass(frozen=True, slots=True)
class Trouble:
    """An obstacle to a pipeline since ``since_s``, after ``tries`` failed ones; times are readings of one clock."""

    what: str
    public_what: str
    """The same without values of rows."""
    since_s: float
    tries: int = 0
    next_s: float = 0.0
    silent_s: float = 0.0
    """How long the source had not answered before the first failure; does not count against the patience."""

    @property
    def began_s(self) -> float:
        """When the obstacle began, for messages."""
        return self.since_s - self.silent_s

    def failed_again(self, what: str, public_what: str, now_s: float, patience: Patience) -> Trouble | None:
        """The same after one more failure, with the time of the next try; None when patience is at its end."""
        wait_s = patience.wait_s(self.tries + 1, now_s - self.since_s)
        if wait_s is None:
            return None
        return replace(self, what=what, public_what=public_what, tries=self.tries + 1, next_s=now_s + wait_s)


def may_pass(error: BaseException) -> bool:
    """Whether the pipeline can continue from its checkpoint by itself after the cause has passed."""
    if isinstance(error, OSError):
        return passes(error)
    return isinstance(error, Outage | CommitConflict | CommitOutcomeUnknown | TopicsChanged | TableContinued)
