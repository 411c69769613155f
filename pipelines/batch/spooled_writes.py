"""The write step where all tasks run on one machine: a Spark job that is planned once per query, not once per batch.

Data that differ from batch to batch are in the spool; its name travels as a local property of the job. Launching a job
of new Python tasks takes Spark about twice as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait

from pyspark import SparkContext, TaskContext

from paimon_table.errors import BrokenInvariant
from sinks.exchange.blob import Blob
from sinks.exchange.spool import Spool
from sinks.write.bucket_task import SlotWriter, WriteTask

_PROPERTY = "tidemark.write"

_POLL_S = 0.02
"""How long a compaction that has ended may wait for its table to be published."""


class SpooledWrites:
    """Runs write tasks, at most ``slots`` at a time, over blobs that decode tasks left in the spool.

    Compaction results are in a separate spool, because the batch's spool is cleared before they are done.
    """

    def __init__(self, context: SparkContext, slots: int, spool: Spool) -> None:
        self.spool = spool
        self._outcomes = outcomes = spool.beside()
        self._context = context
        self._slots = slots

        def write(numbers: Iterable[int]) -> Iterator[bytes]:
            for number in numbers:
                _write(spool, outcomes, number)
            return iter(())

        self._tasks = context.parallelize(range(slots), slots).mapPartitions(write)

    def remove(self) -> None:
        """Remove both spools, once no task runs."""
        self.spool.remove()
        self._outcomes.remove()

    def run(self, job: str, task: WriteTask, named: Mapping[str, Sequence[Blob]]) -> None:
        """Append the blobs of each task, announced under its name, then compact.

        Returns when all tasks have ended. While they run, their appends appear in the spool, and their compactions in
        ``compacted``, under the name of the ``job``.
        """
        if not named:
            return
        if len(named) > self._slots:
            raise BrokenInvariant(f"{len(named)} write tasks for {self._slots} slots; please report")
        for number, (name, blobs) in enumerate(named.items()):
            self.spool.give(_share(job, number), (name, task, blobs))
        self._context.setLocalProperty(_PROPERTY, job)
        self._tasks.collect()

    def compacted(self, job: str, running: Future[None], count: int) -> Iterator[bytes]:
        """The results of ``count`` compactions of a job, each soon after it has ended; raises what ended the job."""
        left = count
        while left:
            is_over = running.done()
            for result in self._outcomes.taken(job):
                left -= 1
                yield result
            if is_over:
                break
            wait([running], timeout=_POLL_S)
        running.result()
        if left:
            raise BrokenInvariant(f"{left} compactions have ended without a result; please report")


def _share(job: str, number: int) -> str:
    return f"{job}.{number}"


def _write(spool: Spool, outcomes: Spool, number: int) -> None:
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
    for result in slot.compact():
        outcomes.give_one_of(job, result)
