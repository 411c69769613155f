"""How often one batch is planned, and how long it waits for a table with a transient failure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from paimon_table.errors import BucketCountChanged, CommitConflict
from pipelines.tables.table_failure import TableFailure, may_succeed_later

OTHERS_WAITS_S: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 4.0)
"""How long a batch waits before it is planned again. It waits for a job that rescales one of its tables, or because
other writers changed the placement of its keys."""

STORAGE_WAITS_S: tuple[float, ...] = (0.5, 2.0)
"""How long a batch waits for the storage of one table, which has already retried by itself."""


_RETRY_WORDS = {BucketCountChanged: "buckets changed", CommitConflict: "commit conflict"}


@dataclass(slots=True)
class Attempts:
    """The attempts of one batch."""

    plans: int = 0
    """Since a table was paused."""
    in_one_task: bool = False
    """Rows need values of rows in other buckets, so that one task writes all."""
    retries: Counter[str] = field(default_factory=Counter)
    _left_s: dict[tuple[str, type[Exception]], list[float]] = field(default_factory=dict)

    def note_retry(self, failure: TableFailure) -> None:
        """Count a retry by its cause."""
        self.retries[_RETRY_WORDS.get(type(failure.error), "storage")] += 1

    def wait_s(self, failure: TableFailure) -> float | None:
        """How long to wait before the batch is planned again; None when that has not helped, or would not."""
        kind = type(failure.error)
        if isinstance(failure.error, BucketCountChanged | CommitConflict):
            waits_s = OTHERS_WAITS_S
        elif may_succeed_later(failure.error):
            waits_s = STORAGE_WAITS_S
        else:
            return None
        left_s = self._left_s.setdefault((failure.identifier, kind), list(waits_s))
        return left_s.pop(0) if left_s else None
