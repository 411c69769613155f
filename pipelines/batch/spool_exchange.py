"""Two Spark jobs: the first leaves the blobs in the spool, the second writes; the driver tells it their names.

Spark plans a shuffle between two steps in Python anew for every batch, which takes longer than a second job. Its tasks
announce what they have appended and go on to compact with the rows that they still hold.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial

from pyspark.sql import DataFrame

from paimon_table import BucketId
from paimon_table.errors import BrokenInvariant
from pipelines.batch.decode_stream import publish
from pipelines.batch.decode_task import DecodeReport, DecodeTask
from pipelines.batch.exchange import DecodedBlobs, Written
from pipelines.batch.job_result import unpack, unpacked
from pipelines.batch.spark_compactions import compacted_by
from pipelines.batch.spooled_writes import SpooledWrites
from sinks.exchange.blob import from_row
from sinks.write.bucket_task import CompactTask, WriteTask

StartJob = Callable[[Callable[[], None]], Future[None]]
"""Runs a job on a thread of its own, after what was started there before."""


class SpoolExchange:
    """An ``Exchange`` over the blobs that ``decode_stream.decoded`` makes of a batch's records, not computed yet.

    ``start_job`` runs the write job, whose compactions go on when ``write`` has returned.
    """

    is_one_job = False

    def __init__(self, blobs: DataFrame, writes: SpooledWrites, start_job: StartJob) -> None:
        self._blobs = blobs
        self._writes = writes
        self._start_job = start_job
        self._decoded = DecodedBlobs()

    def decode(self, decode: DecodeTask, write: WriteTask | None) -> Sequence[DecodeReport]:
        self.close()
        publish(self._blobs.sparkSession, decode)
        self._decoded = DecodedBlobs.of(map(from_row, self._blobs.collect()))
        return unpack(self._decoded.reports).reports

    def write(self, task: WriteTask, *, in_one_task: bool) -> Written:
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
        self._writes.spool.clear()

    def compact(self, task: CompactTask, due: Sequence[tuple[int, BucketId]]) -> Iterable[bytes]:
        return compacted_by(self._blobs.sparkSession.sparkContext, task, due)
