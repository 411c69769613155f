"""One micro-batch, from top to bottom: plan, decode, follow the schema, write, append; then compact.

``process_batch`` runs on the driver inside Spark's ``foreachBatch``. Spark decodes the records into blobs, brings them
together so that one task owns a bucket, merges and writes. The plan is optimistic: it assumes that the events show
nothing new. If they do (a new table, a new column, a wider type), nothing of that is committed, the tables follow what
was seen and all runs again over the same offsets. With a single write task it runs when rows need values of rows in
other buckets (a changed primary key with values that were not sent).

Once the rows are in the tables (APPEND) Spark may go on. The higher levels and the changelog (COMPACT) follow while
Spark closes the batch, plans the next one and, with tasks on this machine, decodes it. The next batch writes nothing
before they are published, so the snapshots are those of one step after the other.
"""

from __future__ import annotations

import logging
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from paimon_table.errors import BrokenInvariant, MalformedRecord, SchemaChangeRefused
from pipelines.batch.batch_commit import AppendedBatch, append, compact_batch
from pipelines.batch.batch_report import BatchReport, Stopwatch
from pipelines.batch.compactions import Compactions, on_spark
from pipelines.batch.decode_stream import publish
from pipelines.batch.decode_task import DecodeTask
from pipelines.batch.job_result import JobResult, unpack
from pipelines.batch.plan import BatchPlan, BatchRun, TaskSettings, plan_batch, plan_decode
from pipelines.batch.spooled_writes import SpooledWrites
from pipelines.tables.tables import PipelineTables
from sinks import faults
from sinks.exchange.blob import REPORT, Blob, from_row
from sinks.exchange.spool import Spool
from sinks.write.bucket_task import RESULT_DDL, WriteTask

log = logging.getLogger(__name__)

MAX_PLANS = 10
"""How often one batch may show something new before that is taken for a fault of ours."""


def process_batch(
    blobs: DataFrame,
    batch: BatchRun,
    tables: PipelineTables,
    settings: TaskSettings,
    writes: SpooledWrites | None,
    compactions: Compactions,
    on_report: Callable[[BatchReport], None],
) -> None:
    """Bring the rows of one batch into its tables, exactly once (the argument stands in ``sinks.commit.table_sink``).

    ``blobs`` are what ``decode_stream.decoded`` makes of the batch's records, not computed yet. ``writes`` uses the
    spool of the settings and is None where they have none. What is left to do when this returns is handed to
    ``compactions``, which then calls ``on_report``.
    """
    faults.reached("before-decode", batch.id)
    job = _Job(blobs, batch, tables, compactions, Stopwatch())
    context = blobs.sparkSession.sparkContext
    if writes is None:
        appended = job.through_shuffle(settings)
        compacted: Callable[[], JobResult] = JobResult
    else:
        appended, compacted = job.through_spool(settings, writes)

    def finish() -> None:
        on_report(compact_batch(appended, tables, settings, on_spark(context), compacted()))

    compactions.start(finish)


@dataclass(frozen=True, slots=True)
class _Job:
    """Decode, bring the blobs of a bucket together, write, append."""

    blobs: DataFrame
    batch: BatchRun
    tables: PipelineTables
    compactions: Compactions
    clock: Stopwatch

    def through_shuffle(self, settings: TaskSettings) -> AppendedBatch:
        """One Spark job, whose shuffle carries the blobs, decodes and appends; another one will compact."""
        self._wait()
        for _ in range(MAX_PLANS):
            plan = plan_batch(self.tables, self.batch, settings)
            self._decode_by(plan.decode, settings)
            result = unpack(self._decode_and_write(plan.write, settings.slots))
            self.clock.lap("write")
            if result.failures:
                result.discard(plan.write)
                raise result.failures[0]
            is_new = self._is_new(result, settings)
            is_split = settings.slots > 1 and any(r.moved_count for r in result.reports)
            if not is_new and not is_split:
                return append(plan, result, self.tables, self.clock, result.needing_compaction)
            if is_split:
                settings = replace(settings, slots=1)
            result.discard(plan.write)
        raise self._never_known()

    def through_spool(
        self, settings: TaskSettings, writes: SpooledWrites
    ) -> tuple[AppendedBatch, Callable[[], JobResult]]:
        """Two Spark jobs: the first leaves the blobs in the spool, the second writes; the driver tells it their names.

        Spark plans a shuffle between two steps in Python anew for every batch, which takes longer than a second job.
        Its tasks announce what they have appended and go on to compact; the function returned waits for the end.
        """
        spool = writes.spool
        try:
            plan, reports, slots = self._decoded(settings, spool)
            named = {str(uuid.uuid4()): blobs for blobs in slots}
            writing = self.compactions.start(partial(writes.run, plan.write, named))
            announced = spool.announced(list(named), writing.done)
            if announced is None:
                writing.result()
                raise BrokenInvariant(f"batch {self.batch.id}: its write tasks ended without a result; please report")
        finally:
            spool.clear()
        result = unpack([*reports, *announced])
        self.clock.lap("write")
        if result.failures:
            with suppress(Exception):
                unpack(writing.result()).discard(plan.write)
            result.discard(plan.write)
            raise result.failures[0]
        return append(plan, result, self.tables, self.clock), lambda: unpack(writing.result())

    def _decoded(self, settings: TaskSettings, spool: Spool) -> tuple[BatchPlan, list[bytes], list[list[Blob]]]:
        """The plan to write by, the reports of the decode tasks, and the blobs of each write task."""
        for _ in range(MAX_PLANS):
            spool.clear()
            decode = plan_decode(self.tables, self.batch, settings)
            self._decode_by(decode, settings)
            reports: list[bytes] = []
            slots: defaultdict[int, list[Blob]] = defaultdict(list)
            for blob in map(from_row, self.blobs.collect()):
                if blob.target == REPORT:
                    reports.append(bytes(blob.data))
                else:
                    slots[blob.slot_key].append(blob)
            self.clock.lap("decode")
            self._wait()
            seen = unpack(reports)
            if self._is_new(seen, settings):
                continue
            plan = plan_batch(self.tables, self.batch, settings)
            self.clock.lap("plan")
            if plan.decode.schema_ids == decode.schema_ids:
                is_split = any(r.moved_count for r in seen.reports)
                tasks = [[blob for blobs in slots.values() for blob in blobs]] if is_split else list(slots.values())
                return plan, reports, tasks
        raise self._never_known()

    def _decode_by(self, decode: DecodeTask, settings: TaskSettings) -> None:
        """Let tasks decode by this from now on; what they put into quarantine before is forgotten."""
        if settings.quarantine is not None:
            settings.quarantine.clear(self.batch.id)
        publish(self.blobs.sparkSession, decode)
        self.clock.lap("plan")

    def _decode_and_write(self, write_task: WriteTask, slots: int) -> Iterator[bytes]:
        def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return write_task(batches)

        shuffled = self.blobs.repartition(slots, "slot")
        return (row[0] for row in shuffled.mapInArrow(write, RESULT_DDL).collect())

    def _wait(self) -> None:
        self.compactions.wait()
        self.clock.lap("wait")

    def _is_new(self, result: JobResult, settings: TaskSettings) -> bool:
        """Whether the events showed something that the tables did not know; now they do."""
        stop_on_refusals(result, settings)
        return self.tables.apply(o for r in result.reports for o in r.observations)

    def _never_known(self) -> BrokenInvariant:
        return BrokenInvariant(
            f"batch {self.batch.id}: after {MAX_PLANS} plans its events still show something new; please report"
        )


def stop_on_refusals(result: JobResult, settings: TaskSettings) -> None:
    for report in result.reports:
        for refusal in report.refusals:
            raise SchemaChangeRefused(
                f"{refusal.source.topic} partition {refusal.partition} offset {refusal.offset}: {refusal.reason}"
            )
        bad = report.first_quarantined
        if bad is not None and settings.quarantine is None:
            # The reason of a dump's line that is no record has its place, which is none of a topic.
            place = f"{bad.topic} partition {bad.partition} offset {bad.offset}: " if bad.partition >= 0 else ""
            raise MalformedRecord(f"{place}{bad.reason}; mend the record, or set on_bad_record to quarantine")
