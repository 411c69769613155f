"""All tasks of a batch as plain function calls in this process, without Spark: for small batches, retries, trials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from math import inf

import pyarrow as pa

from paimon_table import BucketId
from paimon_table.side_by_side import in_parallel
from pipelines.batch.batch import CheckRead, process_batch
from pipelines.batch.batch_report import BatchReport
from pipelines.batch.compactions import Compactions
from pipelines.batch.decode_report import DecodeReport
from pipelines.batch.decode_task import DecodeTask
from pipelines.batch.exchange import DecodedBlobs, HeldWrites, Written
from pipelines.batch.job_result import JobResult, unpack, unpacked
from pipelines.batch.plan import BatchRun, TaskSettings
from pipelines.tables.tables import PipelineTables
from sinks import faults
from sinks.exchange.blob import Blob, from_record_batch
from sinks.write.bucket_task import CompactTask, SlotWriter, WriteTask


class LocalExchange:
    """An ``Exchange`` in this process, in the order of Spark's: of the spool's two jobs, or of the shuffle's one.

    Each of ``records`` is what one decode task reads. There are as many write tasks as slots with blobs; they run in
    parallel. Compactions that take more than ``most_compacted_bytes`` are left to ``compact``.
    """

    def __init__(
        self, records: Sequence[pa.RecordBatch], *, is_one_job: bool = False, most_compacted_bytes: float = inf
    ) -> None:
        self.is_one_job = is_one_job
        self._records = records
        self._most_compacted_bytes = most_compacted_bytes
        self._decoded = DecodedBlobs()
        self._held = HeldWrites()

    def decode(self, decode: DecodeTask, write: WriteTask | None) -> Sequence[DecodeReport]:
        if self.is_one_job or (write is not None and write.in_place):
            return self._held.hold(write, partial(self._decoded_and_appended, decode))
        self._decoded = DecodedBlobs.of(chain.from_iterable(self._blobs(decode)))
        return unpack(self._decoded.reports).reports

    def write(self, task: WriteTask, *, in_one_task: bool) -> Written:
        if self.is_one_job or task.in_place:
            return self._held.give()
        writers = _writers(task, self._decoded.shares(in_one_task=in_one_task))
        result = _appended(self._decoded, writers)
        large = tuple(each for writer in writers for each in writer.leave_large(self._most_compacted_bytes))
        compacting = tuple(each for each in result.needing_compaction if each not in large)
        return Written(result, large, compacting, lambda: map(unpacked, _parallel([w.compact for w in writers])))

    def close(self) -> None:
        self._held.discard()

    def compact(self, task: CompactTask, due: Sequence[tuple[int, BucketId]]) -> Iterable[bytes]:
        return task(due)

    def _blobs(self, decode: DecodeTask) -> Iterator[list[Blob]]:
        """The records of each decode task."""
        decode = replace(decode, spool=None)
        for number, records in enumerate(self._records):
            numbered = None if decode.quarantine is None else replace(decode.quarantine, task=number)
            out = replace(decode, quarantine=numbered)([records])
            yield [blob for batch in out for blob in from_record_batch(batch)]

    def _decoded_and_appended(self, decode: DecodeTask, task: WriteTask) -> JobResult:
        if task.in_place:
            writers = [SlotWriter(task, blobs) for blobs in self._blobs(decode)]
            return unpack(chain.from_iterable(writer.append() for writer in writers))
        decoded = DecodedBlobs.of(chain.from_iterable(self._blobs(decode)))
        return _appended(decoded, _writers(task, decoded.slots))


def process_locally(
    batch: BatchRun,
    tables: PipelineTables,
    settings: TaskSettings,
    records: pa.RecordBatch,
    check_read: CheckRead = lambda _: None,
) -> BatchReport:
    """``process_batch`` in this process; returns once the compactions of the batch are committed too."""
    compactions, reports = Compactions(), list[BatchReport]()
    try:
        process_batch(batch, tables, settings, LocalExchange([records]), compactions, reports.append, check_read)
        compactions.wait()
    finally:
        compactions.close()
    return reports[0]


def _writers(task: WriteTask, shares: Iterable[Sequence[Blob]]) -> list[SlotWriter]:
    return [SlotWriter(task, blobs) for blobs in shares]


def _appended(decoded: DecodedBlobs, writers: Sequence[SlotWriter]) -> JobResult:
    return unpack(chain(decoded.reports, _parallel([writer.append for writer in writers])))


def _parallel(tasks: Sequence[Callable[[], Iterator[bytes]]]) -> Iterator[bytes]:
    """The results of the tasks, in their order."""
    for _, results in in_parallel(lambda task: list(task()), tasks, 1 if faults.is_wanted() else len(tasks)):
        yield from results
