"""The attempts of one batch: how often it is planned, and how long it waits for a table with a transient failure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from paimon_table.errors import BucketCountChanged, CommitConflict
from paimon_table.patience import Patience
from pipelines.tables.table_failure import TableFailure, may_succeed_later

OTHERS = Patience(0.25, 4.0, retries=5)
"""Conflicts with a job that rescales a table of the batch, or with writers that changed the placement of its keys."""

STORAGE = Patience(1.0, 2.0, retries=2)
"""Failures of the storage of one table, which has already retried by itself."""

_RETRY_WORDS = {BucketCountChanged: "buckets changed", CommitConflict: "commit conflict"}


@dataclass(slots=True)
class Attempts:
    """The attempts of one batch."""

    plans: int = 0
    """Because a table was paused."""
    in_one_task: bool = False
    """Rows need values of rows in other buckets, so one task writes all."""
    retries: Counter[str] = field(default_factory=Counter)
    _failures: Counter[tuple[str, type[Exception]]] = field(default_factory=Counter)

    def note_retry(self, failure: TableFailure) -> None:
        """Count a retry by its cause."""
        self.retries[_RETRY_WORDS.get(type(failure.error), "storage")] += 1

    def wait_s(self, failure: TableFailure) -> float | None:
        """The seconds to wait before the next plan of the batch; None if waiting has not helped, or would not."""
        is_of_others = isinstance(failure.error, BucketCountChanged | CommitConflict)
        if not is_of_others and not may_succeed_later(failure.error):
            return None
        of = failure.identifier, type(failure.error)
        self._failures[of] += 1
        return (OTHERS if is_of_others else STORAGE).wait_s(self._failures[of])
