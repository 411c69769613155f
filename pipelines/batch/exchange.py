"""How the changes of a batch are grouped so that one task owns a bucket, and where the batch's tasks run.

``process_batch`` defines the order of the steps and knows neither Spark nor files. An exchange carries the blobs from
the decode tasks to the write tasks. It uses Spark's shuffle or files of one machine (``spark_exchange``), or works
inside this process (``local_exchange``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from paimon_table import BucketId
from paimon_table.errors import BrokenInvariant
from pipelines.batch.decode_report import DecodeReport
from pipelines.batch.decode_task import DecodeTask
from pipelines.batch.job_result import JobResult
from sinks.exchange.blob import REPORT, Blob
from sinks.write.bucket_task import CompactTask, WriteTask


@dataclass(frozen=True, slots=True)
class Written:
    """The level 0 files of a batch's tasks, not committed yet, and the compactions after them."""

    result: JobResult
    """The reports of the decode tasks and the messages of the write tasks."""
    due: tuple[tuple[int, BucketId], ...] = ()
    """(target index, bucket) pairs to compact after the commit of the messages, in separate tasks."""
    compacting: tuple[tuple[int, BucketId], ...] = ()
    """(target index, bucket) pairs that the write tasks compact themselves afterwards."""
    compacted: Callable[[], Iterator[JobResult]] = lambda: iter(())
    """The compactions of the tasks, each bucket as it finishes. Publish them after the messages. Call once."""

    def discard(self, task: WriteTask) -> None:
        """Delete the files that the tasks wrote; the caller must not commit these files afterwards."""
        with suppress(Exception):
            JobResult.of(self.compacted()).discard(task)
        self.result.discard(task)


class HeldWrites:
    """The level 0 files of a job that decodes and writes: held until ``write`` returns them or they are discarded."""

    def __init__(self) -> None:
        self._held: tuple[WriteTask, JobResult] | None = None

    def hold(self, task: WriteTask | None, job: Callable[[WriteTask], JobResult]) -> Sequence[DecodeReport]:
        """Discard earlier results of the job, then run it; returns the reports of its decode tasks."""
        if task is None:
            raise BrokenInvariant("a job that decodes and writes has no plan for its writes; please report")
        self.discard()
        result = job(task)
        self._held = task, result
        return result.reports

    def give(self) -> Written:
        """The held files, which the caller now owns."""
        if self._held is None:
            raise BrokenInvariant("nothing was decoded that could be written; please report")
        (_, result), self._held = self._held, None
        return Written(result, tuple(result.needing_compaction))

    def discard(self) -> None:
        """Delete the held files, if there are any."""
        if self._held is not None:
            (task, result), self._held = self._held, None
            result.discard(task)


class Exchange(Protocol):
    """The tasks of one batch, called by its driver: ``decode`` until the plan is right, ``write`` once, ``close``."""

    @property
    def is_one_job(self) -> bool:
        """Whether ``decode`` writes too.

        In that case the write side is planned first, once the previous batch has no unfinished work. If the blobs turn
        out to belong in one task, the batch is decoded again.
        """
        ...

    def decode(self, decode: DecodeTask, write: WriteTask | None) -> Sequence[DecodeReport]:
        """Decode all records of the batch; the results of an earlier call are dropped.

        ``write`` is given if one job decodes and writes, and if it is ``in_place``: the decode tasks then write what
        they decode.
        """
        ...

    def write(self, task: WriteTask, *, in_one_task: bool) -> Written:
        """Write the decoded rows to level 0; if one job decodes and writes, the rows are already written.

        All blobs of a bucket go to the same write task. With ``in_one_task`` one task gets all blobs.
        """
        ...

    def close(self) -> None:
        """Delete the leftovers of the batch; written files stay if ``write`` has returned them."""
        ...

    def compact(self, task: CompactTask, due: Sequence[tuple[int, BucketId]]) -> Iterable[bytes]:
        """Run the task over all (target index, bucket) pairs.

        Yields its pickled results, possibly before all are done.
        """
        ...


@dataclass(frozen=True, slots=True)
class DecodedBlobs:
    """The output of decode tasks: their pickled reports, and the blobs of each slot."""

    reports: tuple[bytes, ...] = ()
    slots: tuple[tuple[Blob, ...], ...] = ()

    @staticmethod
    def of(blobs: Iterable[Blob]) -> DecodedBlobs:
        reports: list[bytes] = []
        slots: defaultdict[int, list[Blob]] = defaultdict(list)
        for blob in blobs:
            if blob.target == REPORT:
                reports.append(bytes(blob.data))
            else:
                slots[blob.slot_key].append(blob)
        return DecodedBlobs(tuple(reports), tuple(map(tuple, slots.values())))

    def shares(self, *, in_one_task: bool) -> tuple[tuple[Blob, ...], ...]:
        """The blobs of each write task."""
        return (tuple(blob for blobs in self.slots for blob in blobs),) if in_one_task and self.slots else self.slots
