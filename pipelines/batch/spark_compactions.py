"""Compactions as a Spark job of their own."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark import SparkContext

from paimon_table import BucketId
from sinks.write.bucket_task import CompactTask

_TASKS_PER_CORE = 2
"""Compactions differ in size: with more tasks than cores, a core that is done early takes another one."""


def compacted_by(context: SparkContext, task: CompactTask, due: Sequence[tuple[int, BucketId]]) -> list[bytes]:
    """Run ``task`` over the (target index, bucket) pairs; gives its pickled results."""
    tasks = min(len(due), _TASKS_PER_CORE * context.defaultParallelism)
    results: list[bytes] = context.parallelize(due, tasks).mapPartitions(task).collect()
    return results
