"""The exchanges of a Spark session: through its shuffle, or through files that decode and write tasks share.

Through the shuffle one job decodes and writes; this works for tasks on several machines. With files there are two
jobs, and the driver passes the names of the files to the second one. For every batch, Spark plans a shuffle between
two Python steps anew, which takes longer than a second job. Write tasks report the rows that they have appended, then
compact.

If any task may write any row (``WriteTask.in_place``), nothing is exchanged: the job that decodes writes too.

Compactions are separate Spark jobs: the tables with most to compact have a job each, the others share one.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import replace
from functools import partial

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame

from paimon_table import BucketId
from paimon_table.errors import BrokenInvariant
from pipelines.batch.compactions import Compactions
from pipelines.batch.decode_report import DecodeReport
from pipelines.batch.decode_stream import publish
from pipelines.batch.decode_task import DecodeTask
from pipelines.batch.exchange import DecodedBlobs, Exchange, HeldWrites, Written
from pipelines.batch.job_result import JobResult, unpack, unpacked
from pipelines.batch.spooled_writes import SpooledWrites
from sinks.exchange.blob import from_row
from sinks.write.bucket_task import RESULT_DDL, CompactTask, WriteTask

_TASKS_PER_CORE = 2
"""Compactions differ in size: with more tasks than cores, a core that is done early takes another one."""

_JOBS = 4
"""At a time. Each costs its launch, so tables with little to compact go together."""

Due = tuple[int, BucketId]
"""Target index and bucket."""

MakeExchange = Callable[[DataFrame, Compactions], Exchange]


class ShuffleExchange:
    """An ``Exchange`` over the blobs of ``decode_stream.decoded``, which are not computed yet.

    The driver gets the result of a write task only when it ends, so compactions are a separate job after the commit.
    """

    is_one_job = True

    def __init__(self, blobs: DataFrame) -> None:
        self._blobs = blobs
        self._held = HeldWrites()

    def decode(self, decode: DecodeTask, write: WriteTask | None) -> Sequence[DecodeReport]:
        return self._held.hold(write, partial(self._run, decode))

    def write(self, task: WriteTask, *, in_one_task: bool) -> Written:
        return self._held.give()

    def close(self) -> None:
        self._held.discard()

    def compact(self, task: CompactTask, due: Sequence[tuple[int, BucketId]]) -> Iterable[bytes]:
        return compacted_by(self._blobs.sparkSession.sparkContext, task, due)

    def _run(self, decode: DecodeTask, task: WriteTask) -> JobResult:
        def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return task(batches)

        publish(self._blobs.sparkSession, decode)
        shuffled = self._blobs if task.in_place else self._blobs.repartition(decode.slots, "slot")
        return unpack(row[0] for row in shuffled.mapInArrow(write, RESULT_DDL).collect())


StartJob = Callable[[Callable[[], None]], Future[None]]
"""Runs a job on a separate thread, after the jobs that were started earlier."""


class SpoolExchange:
    """An ``Exchange`` over the blobs of ``decode_stream.decoded``, which are not computed yet.

    ``start_job`` runs the write job, whose compactions continue after ``write`` has returned.
    """

    is_one_job = False

    def __init__(self, blobs: DataFrame, writes: SpooledWrites, start_job: StartJob) -> None:
        self._blobs = blobs
        self._writes = writes
        self._start_job = start_job
        self._decoded = DecodedBlobs()
        self._held = HeldWrites()

    def decode(self, decode: DecodeTask, write: WriteTask | None) -> Sequence[DecodeReport]:
        self.close()
        if write is not None and write.in_place:
            return self._held.hold(write, partial(self._decoded_and_written, decode))
        publish(self._blobs.sparkSession, decode)
        self._decoded = DecodedBlobs.of(map(from_row, self._blobs.collect()))
        return unpack(self._decoded.reports).reports

    def _decoded_and_written(self, decode: DecodeTask, task: WriteTask) -> JobResult:
        name = str(uuid.uuid4())
        self._writes.spool.give(name, task)
        publish(self._blobs.sparkSession, replace(decode, write=name))
        return unpack(from_row(row).data for row in self._blobs.collect())

    def write(self, task: WriteTask, *, in_one_task: bool) -> Written:
        if task.in_place:
            return self._held.give()
        named = {str(uuid.uuid4()): blobs for blobs in self._decoded.shares(in_one_task=in_one_task)}
        job = str(uuid.uuid4())
        writing = self._start_job(partial(self._writes.run, job, task, named))
        announced = self._writes.spool.announced(list(named), writing.done)
        if announced is None:
            writing.result()
            raise BrokenInvariant(f"batch {task.batch_id}: its write tasks ended without a result; please report")
        result = unpack([*self._decoded.reports, *announced])
        compacting = tuple(result.needing_compaction)
        ended = partial(self._writes.compacted, job, writing, len(compacting))
        return Written(result, compacting=compacting, compacted=lambda: map(unpacked, ended()))

    def close(self) -> None:
        self._held.discard()
        self._writes.spool.clear()

    def compact(self, task: CompactTask, due: Sequence[tuple[int, BucketId]]) -> Iterable[bytes]:
        return compacted_by(self._blobs.sparkSession.sparkContext, task, due)


def spark_exchange(writes: SpooledWrites | None, blobs: DataFrame, compactions: Compactions) -> Exchange:
    """The exchange of one batch, or slice: by way of the files of ``writes``, without them through Spark's shuffle."""
    return ShuffleExchange(blobs) if writes is None else SpoolExchange(blobs, writes, compactions.start_job)


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
    """The buckets that each job compacts, those with the fewest new rows first. A table is in one job; the largest have
    a job each."""
    of_table: defaultdict[int, list[Due]] = defaultdict(list)
    for each in due:
        of_table[each[0]].append(each)
    tables = sorted(of_table.values(), key=lambda of_one: sum(map(new_rows.__getitem__, of_one)))
    shared, alone = tables[: 1 - _JOBS], tables[1 - _JOBS :]
    return [[each for of_one in shared for each in of_one], *alone] if shared else alone


def _new_rows(task: CompactTask, target: int, bucket: BucketId) -> int:
    return sum(file.row_count for file in task.write.targets[target].live.of(bucket).files if file.level == 0)
