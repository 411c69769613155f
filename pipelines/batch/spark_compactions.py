"""Compactions as Spark jobs of their own: the tables with most to compact have a job each, the others share one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from pyspark import SparkContext

from paimon_table import BucketId
from sinks.write.bucket_task import CompactTask

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
