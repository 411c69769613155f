"""One micro-batch, from top to bottom: plan, decode and write, follow the schema, commit.

``process_batch`` runs on the driver inside Spark's ``foreachBatch``. Spark decodes the records into blobs, brings them
together so that one task owns a bucket, merges and writes. The plan is optimistic: it assumes that the events show
nothing new. If they do (a new table, a new column, a wider type), nothing of that is committed: its files are deleted,
the tables follow what was seen and all runs again over the same offsets. It also runs again, with a single write task,
when rows need values of rows in other buckets (a changed primary key with values that were not sent).
"""

from __future__ import annotations

import logging
import pickle
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from paimon_table.data_file import BucketId, CommitMessage
from paimon_table.errors import BrokenInvariant, MalformedRecord, SchemaChangeRefused, TidemarkError
from pipelines.decode_stream import publish
from pipelines.decode_task import DecodeReport
from pipelines.plan import BatchPlan, BatchRun, TaskSettings, plan_batch
from pipelines.tables import PipelineTables
from sinks import faults
from sinks.blob import REPORT, Blob, from_row
from sinks.bucket_task import RESULT_DDL, BucketResult, CompactTask
from sinks.discard import discard

log = logging.getLogger(__name__)

MAX_PLANS = 10
"""How often one batch may show something new before that is taken for a fault of ours."""


@dataclass(frozen=True, slots=True)
class TableReport:
    """What one batch brought to one table."""

    identifier: str
    row_count: int
    bucket_count: int
    snapshot_ids: tuple[int, ...]
    changelog_row_count: int


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What one batch did, for progress lines and the summary. ``seconds`` holds wall time per step of the driver."""

    batch_id: int
    record_count: int
    quarantined_count: int
    tables: tuple[TableReport, ...]
    seconds: dict[str, float]
    task_seconds: dict[str, float]
    """Time inside the tasks per step, summed over tasks that run side by side."""


@dataclass(slots=True)
class JobResult:
    """What the tasks that decode and write a batch returned."""

    reports: list[DecodeReport] = field(default_factory=list)
    buckets: list[BucketResult] = field(default_factory=list)
    waits: list[dict[str, float]] = field(default_factory=list)
    """Seconds that each write task waited for its blobs."""
    failures: list[TidemarkError] = field(default_factory=list)
    """What kept write tasks from merging a bucket, and would again."""

    def messages(self, target: int) -> list[CommitMessage]:
        return [b.message for b in self.buckets if b.target == target]

    def written(self) -> set[tuple[int, BucketId]]:
        """(target index, bucket) of every bucket that a task has a message for."""
        return {(b.target, b.message.bucket) for b in self.buckets}


def process_batch(blobs: DataFrame, batch: BatchRun, tables: PipelineTables, settings: TaskSettings) -> BatchReport:
    """Bring one batch into its tables, exactly once (the argument stands in ``sinks.table_sink``).

    ``blobs`` are what ``decode_stream.decoded`` makes of the batch's records, not computed yet.
    """
    faults.reached("before-decode", batch.id)
    clock = _Stopwatch()
    if settings.quarantine is not None:
        settings.quarantine.clear(batch.id)
    plan = plan_batch(tables, batch, settings)
    clock.lap("plan")
    result = run_job(blobs, plan)
    for _ in range(MAX_PLANS):
        stop_on_refusals(result, settings)
        is_new = tables.apply(o for r in result.reports for o in r.observations)
        is_split = settings.slots > 1 and any(r.moved_count for r in result.reports)
        if not is_new and not is_split:
            break
        if is_split:
            settings = replace(settings, slots=1)
        _discard(plan, result)
        if settings.quarantine is not None:
            settings.quarantine.clear(batch.id)
        plan = plan_batch(tables, batch, settings)
        result = run_job(blobs, plan)
    else:
        raise BrokenInvariant(f"batch {batch.id}: its events show new columns after {MAX_PLANS} plans; please report")
    clock.lap("job")
    result.buckets.extend(compact_pending(blobs.sparkSession, plan, result))
    unknown_count = sum(b.unknown_count for b in result.buckets)
    if unknown_count:
        log.warning(
            "batch %d: %d values that the source did not send are not known; NULL was written", batch.id, unknown_count
        )
    faults.reached("after-write", batch.id)
    reports = commit(plan, result, tables)
    clock.lap("commit")
    return BatchReport(
        batch.id,
        sum(r.record_count for r in result.reports),
        sum(r.quarantined_count for r in result.reports),
        reports,
        clock.laps,
        _task_seconds(result),
    )


def run_job(blobs: DataFrame, plan: BatchPlan) -> JobResult:
    """Decode, bring the blobs of a bucket together, write. Publishes nothing."""
    publish(blobs.sparkSession, plan.decode)
    spool = plan.decode.spool
    if spool is None:
        result = unpack(_through_shuffle(blobs, plan))
    else:
        try:
            result = unpack(_through_spool(blobs, plan))
        finally:
            spool.clear()
    for failure in result.failures:
        _discard(plan, result)
        raise failure
    return result


def _through_shuffle(blobs: DataFrame, plan: BatchPlan) -> Iterator[bytes]:
    """One Spark job whose shuffle carries the blobs."""
    write_task = plan.write

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return write_task(batches)

    shuffled = blobs.repartition(plan.slots, "slot")
    return (row[0] for row in shuffled.mapInArrow(write, RESULT_DDL).collect())


def _through_spool(blobs: DataFrame, plan: BatchPlan) -> list[bytes]:
    """Two Spark jobs: the first leaves the blobs in the spool and tells the driver their names.

    Spark plans a shuffle between two steps in Python anew for every batch, which takes longer than a second job.
    """
    write_task = plan.write
    reports: list[bytes] = []
    by_slot: defaultdict[int, list[Blob]] = defaultdict(list)
    for blob in map(from_row, blobs.collect()):
        if blob.target == REPORT:
            reports.append(bytes(blob.data))
        else:
            by_slot[blob.slot_key].append(blob)

    def write(slots: Iterable[list[Blob]]) -> Iterator[bytes]:
        for of_slot in slots:
            yield from write_task.results(of_slot)

    if by_slot:
        context = blobs.sparkSession.sparkContext
        reports += context.parallelize(list(by_slot.values()), len(by_slot)).mapPartitions(write).collect()
    return reports


def compact_pending(spark: SparkSession, plan: BatchPlan, result: JobResult) -> list[BucketResult]:
    """The compactions that are due in buckets to which the job wrote nothing."""
    requests = [(pickle.dumps(request),) for request in plan.compactions_without_rows(result.written())]
    if not requests:
        return []
    log.info("batch %d: compacting %d buckets that got no rows", plan.batch.id, len(requests))
    task = CompactTask(plan.write)

    def compact(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    rows = spark.createDataFrame(requests, RESULT_DDL).mapInArrow(compact, RESULT_DDL).collect()
    compacted = unpack(row[0] for row in rows)
    for failure in compacted.failures:
        _discard(plan, result)
        _discard(plan, compacted)
        raise failure
    return compacted.buckets


def commit(plan: BatchPlan, result: JobResult, tables: PipelineTables) -> tuple[TableReport, ...]:
    """Publish every touched table; a table that is not touched gets no snapshot."""
    ends: dict[tuple[str, int], int] = {}
    for report in result.reports:
        for place, end in report.ends.items():
            ends[place] = max(end, ends.get(place, 0))
    topics: defaultdict[str, set[str]] = defaultdict(set)
    for source, identifier in plan.routes.items():
        if identifier is not None:
            topics[identifier].add(source.topic)

    def on_step(step: str) -> None:
        faults.reached(step, plan.batch.id)

    reports = []
    for index, identifier in enumerate(plan.identifiers):
        messages = [m for m in result.messages(index) if not m.is_empty]
        if not messages:
            continue
        own_ends = {place: end for place, end in ends.items() if place[0] in topics[identifier]}
        sink = tables.sinks[identifier]
        committed = sink.commit(plan.batch.id, messages, own_ends, on_step, plan.batch.started_ms)
        snapshots = [s for s in (committed.append, committed.compact) if s is not None]
        reports.append(
            TableReport(
                identifier,
                sum(b.row_count for b in result.buckets if b.target == index),
                len({m.bucket for m in messages}),
                tuple(s.id for s in snapshots),
                sum(s.changelog_record_count or 0 for s in snapshots),
            )
        )
        faults.reached("after-compact", plan.batch.id)
    return tuple(reports)


def unpack(rows: Iterable[bytes]) -> JobResult:
    """What the tasks of a job returned, from their pickled form."""
    result = JobResult()
    for row in rows:
        value = pickle.loads(row)
        if isinstance(value, DecodeReport):
            result.reports.append(value)
        elif isinstance(value, dict):
            result.waits.append(value)
        elif isinstance(value, TidemarkError):
            result.failures.append(value)
        else:
            result.buckets.append(value)
    return result


def stop_on_refusals(result: JobResult, settings: TaskSettings) -> None:
    for report in result.reports:
        for refusal in report.refusals:
            raise SchemaChangeRefused(
                f"{refusal.source.topic} partition {refusal.partition} offset {refusal.offset}: {refusal.reason}"
            )
        bad = report.first_quarantined
        if bad is not None and settings.quarantine is None:
            raise MalformedRecord(
                f"{bad.topic} partition {bad.partition} offset {bad.offset}: {bad.reason};"
                " mend the record, or set on_bad_record to quarantine"
            )


def _discard(plan: BatchPlan, result: JobResult) -> None:
    for index, target in enumerate(plan.write.targets):
        discard(target, result.messages(index))


def _task_seconds(result: JobResult) -> dict[str, float]:
    totals: defaultdict[str, float] = defaultdict(float)
    for seconds_of_part in (*(r.seconds for r in result.reports), *result.waits, *(b.seconds for b in result.buckets)):
        for name, seconds in seconds_of_part.items():
            totals[name] += seconds
    return dict(totals)


class _Stopwatch:
    """Wall time between laps, by name."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.laps: dict[str, float] = {}
        self._now = now
        self._last = now()

    def lap(self, name: str) -> None:
        now = self._now()
        self.laps[name] = self.laps.get(name, 0.0) + now - self._last
        self._last = now
