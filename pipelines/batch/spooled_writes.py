"""The write step where all tasks run on one machine: a Spark job that is planned once per query, not once per batch.

What differs from batch to batch lies in the spool; its name travels as a local property of the job. Launching a job of
new Python tasks takes Spark about twice as long.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pyspark import SparkContext, TaskContext

from paimon_table.errors import BrokenInvariant
from sinks.exchange.blob import Blob
from sinks.exchange.spool import Spool
from sinks.write.bucket_task import SlotWriter, WriteTask

_PROPERTY = "tidemark.write"


class SpooledWrites:
    """Runs write tasks, at most ``slots`` at a time, over blobs that decode tasks left in the spool."""

    def __init__(self, context: SparkContext, slots: int, spool: Spool) -> None:
        self.spool = spool
        self._context = context
        self._slots = slots

        def write(numbers: Iterable[int]) -> Iterator[bytes]:
            for number in numbers:
                yield from _write(spool, number)

        self._tasks = context.parallelize(range(slots), slots).mapPartitions(write)

    def run(self, task: WriteTask, named: Mapping[str, Sequence[Blob]]) -> list[bytes]:
        """Append the blobs of each task, announced under its name, then compact; gives what the compactions gave.

        Returns when all tasks have ended; what they append is to be looked for in the spool meanwhile.
        """
        if not named:
            return []
        if len(named) > self._slots:
            raise BrokenInvariant(f"{len(named)} write tasks for {self._slots} slots; please report")
        job = str(uuid.uuid4())
        for number, (name, blobs) in enumerate(named.items()):
            self.spool.give(_share(job, number), (name, task, blobs))
        self._context.setLocalProperty(_PROPERTY, job)
        results: list[bytes] = self._tasks.collect()
        return results


def _share(job: str, number: int) -> str:
    return f"{job}.{number}"


def _write(spool: Spool, number: int) -> Iterator[bytes]:
    """One write task: its share of the job, if it has one."""
    context = TaskContext.get()
    job = None if context is None else context.getLocalProperty(_PROPERTY)
    if job is None:
        raise BrokenInvariant("a write task runs without the name of its job; please report")
    share = spool.given(_share(job, number))
    if share is None:
        return
    name, task, blobs = share
    slot = SlotWriter(task, blobs)
    spool.announce(name, list(slot.append()))
    yield from slot.compact()
