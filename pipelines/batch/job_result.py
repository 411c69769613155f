"""What the tasks of a batch return to the driver."""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from paimon_table import BucketId, CommitMessage
from pipelines.batch.decode_report import DecodeReport
from sinks.write.bucket_task import Failed, Waited, WriteResult, WriteTask
from sinks.write.unsent import Became, Unsent

TaskMessage: TypeAlias = DecodeReport | WriteResult | Waited | Failed
"""The results of a task, each pickled separately."""


@dataclass(slots=True)
class JobResult:
    """The results of the tasks that decode, write and compact a batch."""

    reports: list[DecodeReport] = field(default_factory=list)
    writes: list[WriteResult] = field(default_factory=list)
    waits: list[Waited] = field(default_factory=list)
    """One of each write task."""
    failures: list[Failed] = field(default_factory=list)

    @staticmethod
    def of(parts: Iterable[JobResult]) -> JobResult:
        """Several results as one."""
        whole = JobResult()
        for part in parts:
            whole.add(part)
        return whole

    def add(self, other: JobResult) -> None:
        self.reports += other.reports
        self.writes += other.writes
        self.waits += other.waits
        self.failures += other.failures

    @property
    def needing_compaction(self) -> list[tuple[int, BucketId]]:
        """(target index, bucket) of the buckets to compact once the written rows are committed."""
        return [(w.target, bucket) for w in self.writes for bucket in w.due]

    @property
    def task_seconds(self) -> dict[str, float]:
        """Time inside the tasks per step, summed over parallel tasks."""
        totals: defaultdict[str, float] = defaultdict(float)
        waits = ({"shuffle": waited.seconds} for waited in self.waits)
        for seconds_of_part in (*(r.seconds for r in self.reports), *waits, *(w.seconds for w in self.writes)):
            for name, seconds in seconds_of_part.items():
                totals[name] += seconds
        return dict(totals)

    def discard(self, write: WriteTask) -> None:
        """Delete the files that the tasks wrote; nothing of this result may be committed afterwards."""
        for index, target in enumerate(write.targets):
            target.context.remove_unpublished(self.messages(index))

    def messages(self, target: int) -> list[CommitMessage]:
        return [message for w in self.writes if w.target == target for message in w.messages]

    def departed(self, target: int) -> list[str]:
        """Rows of keys that a later batch writes."""
        return [w.departed for w in self.writes if w.target == target and w.departed is not None]

    def unsent(self, target: int) -> Unsent:
        """Values that the source did not send and that no row has for certain."""
        return sum((Counter(w.unsent) for w in self.writes if w.target == target), Counter[tuple[str, Became]]())

    def late_rows(self, target: int) -> int:
        """Rows that lost against newer ones that had arrived earlier."""
        return sum(message.late_row_count for message in self.messages(target))

    def written(self) -> set[tuple[int, BucketId]]:
        """(target index, bucket) of every bucket with a message."""
        return {(w.target, message.bucket) for w in self.writes for message in w.messages}


def unpacked(row: bytes) -> JobResult:
    """One thing that a task returned, from its pickled form."""
    return unpack((row,))


def unpack(rows: Iterable[bytes]) -> JobResult:
    """The results of a job's tasks, from their pickled form."""
    result = JobResult()
    for row in rows:
        message: TaskMessage = pickle.loads(row)
        match message:
            case DecodeReport():
                result.reports.append(message)
            case WriteResult():
                result.writes.append(message)
            case Waited():
                result.waits.append(message)
            case Failed():
                result.failures.append(message)
            case _:
                assert_never(message)
    return result
