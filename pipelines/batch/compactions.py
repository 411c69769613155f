"""Compactions of what was appended: on a thread beside the query, while Spark closes a batch and decodes the next one.

As Spark jobs of their own the tables with most to compact have a job each, the others share one.
"""

from __future__ import annotations

import contextvars
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, TypeVar, cast

from paimon_table import BucketId
from sinks.write.bucket_task import CompactTask

if TYPE_CHECKING:
    from pyspark import SparkContext

T = TypeVar("T")


class Compactions:
    """Runs one piece of work after the other on a thread of its own. ``start`` and ``wait`` belong to one other."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tidemark-compactions")
        self._job_thread = ThreadPoolExecutor(1, thread_name_prefix="tidemark-write-job")
        self._started: list[Future[object]] = []

    @property
    def is_busy(self) -> bool:
        return any(not future.done() for future in tuple(self._started))

    def start(self, work: Callable[[], T]) -> Future[T]:
        """Do ``work`` after what was started here before."""
        return self._start(self._thread, work)

    def start_job(self, job: Callable[[], T]) -> Future[T]:
        """Run a job, after the one before, beside the ``work`` that takes what its tasks give."""
        return self._start(self._job_thread, job)

    def _start(self, thread: ThreadPoolExecutor, work: Callable[[], T]) -> Future[T]:
        future = thread.submit(contextvars.copy_context().run, work)
        self._started.append(cast("Future[object]", future))
        return future

    def raise_failure(self) -> None:
        """Raise what ended some work so far."""
        for future in tuple(self._started):
            if future.done():
                future.result()

    def close(self) -> None:
        """End the threads, once they have done what was started."""
        self._thread.shutdown(wait=False)
        self._job_thread.shutdown(wait=False)

    def wait(self) -> None:
        """Return when all that was started is done; raise what ended it."""
        for future in self._started:
            future.result()
        self._started.clear()


_TASKS_PER_CORE = 2
"""Compactions differ in size: with more tasks than cores, a core that is done early takes another one."""

_JOBS = 4
"""At a time. Each costs its launch, so tables with little to compact go together."""

Due = tuple[int, BucketId]
"""Target index and bucket."""


def compacted_by(context: SparkContext, task: CompactTask, due: Sequence[Due]) -> Iterator[bytes]:
    """Run ``task`` over the (target index, bucket) pairs; gives its pickled results, job by job as they end."""

    def run(of_job: Sequence[Due]) -> list[bytes]:
        tasks = min(len(of_job), _TASKS_PER_CORE * context.defaultParallelism)
        results: list[bytes] = context.parallelize(of_job, tasks).mapPartitions(task).collect()
        return results

    jobs = jobs_of(due, {each: _new_rows(task, *each) for each in due})
    with ThreadPoolExecutor(_JOBS, thread_name_prefix="tidemark-compact-job") as threads:
        for job in as_completed([threads.submit(run, job) for job in jobs]):
            yield from job.result()


def jobs_of(due: Sequence[Due], new_rows: Mapping[Due, int]) -> list[list[Due]]:
    """What each job compacts, those with least new rows first: a table is in one job, the heaviest are alone."""
    of_table: defaultdict[int, list[Due]] = defaultdict(list)
    for each in due:
        of_table[each[0]].append(each)
    tables = sorted(of_table.values(), key=lambda of_one: sum(map(new_rows.__getitem__, of_one)))
    shared, alone = tables[: 1 - _JOBS], tables[1 - _JOBS :]
    return [[each for of_one in shared for each in of_one], *alone] if shared else alone


def _new_rows(task: CompactTask, target: int, bucket: BucketId) -> int:
    return sum(file.row_count for file in task.write.targets[target].live.of(bucket).files if file.level == 0)
