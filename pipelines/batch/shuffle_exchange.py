"""One Spark job decodes and writes; its shuffle carries the blobs. The way for tasks on several machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from paimon_table import BucketId
from pipelines.batch.decode_stream import publish
from pipelines.batch.decode_task import DecodeReport, DecodeTask
from pipelines.batch.exchange import HeldWrites, Written
from pipelines.batch.job_result import JobResult, unpack
from pipelines.batch.spark_compactions import compacted_by
from sinks.write.bucket_task import RESULT_DDL, CompactTask, WriteTask


class ShuffleExchange:
    """An ``Exchange`` over the blobs that ``decode_stream.decoded`` makes of a batch's records, not computed yet.

    The driver hears from a write task when it ends, so compactions are a job of their own after the commit.
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
        shuffled = self._blobs.repartition(decode.slots, "slot")
        return unpack(row[0] for row in shuffled.mapInArrow(write, RESULT_DDL).collect())
