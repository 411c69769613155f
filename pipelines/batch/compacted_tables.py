"""Which tables of a batch are compacted: results come bucket by bucket, snapshots are published table by table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from paimon_table import BucketId
from pipelines.batch.job_result import JobResult


def by_table(awaited: Iterable[tuple[int, BucketId]], results: Iterable[JobResult]) -> Iterator[JobResult]:
    """All compactions of a table as one result, each table as soon as the last of its awaited buckets is there.

    Each of ``results`` holds one compaction, or its failure; they are taken one by one. ``awaited`` are
    (target index, bucket) pairs; a table of which some never come is given when all others are.
    """
    left = Counter(target for target, _ in awaited)
    held: defaultdict[int, JobResult] = defaultdict(JobResult)
    for result in results:
        targets = [write.target for write in result.writes] + [failed.target for failed in result.failures]
        for target in targets:
            held[target].add(result)
            left[target] -= 1
            if not left[target]:
                yield held.pop(target)
    yield from held.values()
