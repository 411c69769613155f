"""Batches of little work run in the driver: Spark takes longer to launch two jobs than such a batch takes.

Their records, files and commits are the same wherever they run. Large compactions remain jobs of Spark, so that they
take memory and processor time from no other work of the driver.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from paimon_table import BucketId
from pipelines.batch.decode_report import DecodeReport, add_seconds
from pipelines.batch.decode_task import DecodeTask
from pipelines.batch.exchange import Exchange, Written
from pipelines.batch.local_exchange import LocalExchange
from pipelines.tables.tables import PipelineTables
from sinks.write.bucket_task import CompactTask, WriteTask

WORK_VARIABLE = "TIDEMARK_DRIVER_WORK"
"""An environment variable with another limit than ``MOST_WORK``, for tests and benchmarks: 0 means always tasks."""

MOST_WORK = 10_000
"""In records; measured with ``benchmarks.throughput --batch``: at 20,000 two cores are faster with Spark."""

_PER_BUCKET = 1_000
"""A bucket costs as much as so many records."""

MOST_COMPACTED_BYTES = 32 << 20
"""Compactions that take more files are jobs of Spark."""


def is_small(records: int, tables: PipelineTables) -> bool:
    """Whether a batch of so many records is little work, wherever they go."""
    buckets = sum(max(1, sink.table.options.bucket) for sink in tables.sinks.values())
    most = int(os.environ.get(WORK_VARIABLE, MOST_WORK))
    return 0 < most >= records + _PER_BUCKET * min(records, buckets)


class SmallBatchExchange:
    """An ``Exchange`` in this process for records that ``read`` gives; if it gives none, by Spark's ``otherwise``."""

    is_one_job = False

    def __init__(self, read: Callable[[], Sequence[pa.RecordBatch] | None], otherwise: Exchange) -> None:
        self._read = read
        self._otherwise = otherwise
        self._chosen: Exchange | None = None

    def decode(self, decode: DecodeTask, write: WriteTask | None) -> Sequence[DecodeReport]:
        read_s = 0.0
        if self._chosen is None:
            started_s = time.perf_counter()
            records = self._read()
            read_s = time.perf_counter() - started_s
            here = None if records is None else LocalExchange(records, most_compacted_bytes=MOST_COMPACTED_BYTES)
            self._chosen = here or self._otherwise
        reports = self._chosen.decode(decode, write)
        for report in reports[:1]:
            add_seconds(report, "read", read_s)
        return reports

    def write(self, task: WriteTask, *, in_one_task: bool) -> Written:
        return self._of_decode.write(task, in_one_task=in_one_task)

    def close(self) -> None:
        self._of_decode.close()

    def compact(self, task: CompactTask, due: Sequence[tuple[int, BucketId]]) -> Iterable[bytes]:
        return self._otherwise.compact(task, due)

    @property
    def _of_decode(self) -> Exchange:
        return self._chosen or self._otherwise
