"""One Spark job decodes and writes; its shuffle carries the blobs. The way for tasks on several machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from paimon_table import BucketId
from paimon_table.errors import BrokenInvariant
from pipelines.batch.decode_stream import publish
from pipelines.batch.decode_task import DecodeReport, DecodeTask
from pipelines.batch.exchange import Written
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
        self._held: tuple[WriteTask, JobResult] | None = None

    def decode(self, decode: DecodeTask, write: WriteTask | None) -> Sequence[DecodeReport]:
        if write is None:
            raise BrokenInvariant("a job that decodes and writes has no plan to write by; please report")
        self.close()
        publish(self._blobs.sparkSession, decode)
        result = unpack(self._rows(write, decode.slots))
        self._held = write, result
        return result.reports

    def write(self, task: WriteTask, *, in_one_task: bool) -> Written:
        if self._held is None:
            raise BrokenInvariant("nothing was decoded that could be written; please report")
        (_, result), self._held = self._held, None
        return Written(result, tuple(result.needing_compaction))

    def close(self) -> None:
        if self._held is not None:
            task, result = self._held
            self._held = None
            result.discard(task)

    def compact(self, task: CompactTask, due: Sequence[tuple[int, BucketId]]) -> Iterable[bytes]:
        return compacted_by(self._blobs.sparkSession.sparkContext, task, due)

    def _rows(self, task: WriteTask, slots: int) -> Iterator[bytes]:
        def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return task(batches)

        shuffled = self._blobs.repartition(slots, "slot")
        return (row[0] for row in shuffled.mapInArrow(write, RESULT_DDL).collect())
