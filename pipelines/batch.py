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
import pickle
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from paimon_table.data_file import BucketId, CommitMessage
from paimon_table.errors import BrokenInvariant, MalformedRecord, SchemaChangeRefused, TidemarkError
from paimon_table.snapshot import Snapshot
from pipelines.compactions import Compactions, RunCompactions, on_spark
from pipelines.decode_stream import publish
from pipelines.decode_task import DecodeReport, DecodeTask
from pipelines.plan import BatchPlan, BatchRun, TaskSettings, plan_batch, plan_decode, plan_write
from pipelines.tables import PipelineTables
from sinks import faults
from sinks.blob import REPORT, Blob, from_row
from sinks.bucket_task import RESULT_DDL, BucketResult, CompactTask, SlotWriter, WriteTask
from sinks.discard import discard
from sinks.positions import TopicPartition
from sinks.spool import Spool

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
    """What one batch did, for progress lines and the summary. ``seconds`` holds wall time per step of the driver.

    ``started_s`` and ``ended_s`` are readings of one monotonic clock. A batch may end after the next one has started.
    """

    batch_id: int
    record_count: int
    quarantined_count: int
    tables: tuple[TableReport, ...]
    seconds: dict[str, float]
    task_seconds: dict[str, float]
    """Time inside the tasks per step, summed over tasks that run side by side."""
    started_s: float
    ended_s: float


@dataclass(slots=True)
class JobResult:
    """What the tasks that decode, write and compact a batch returned."""

    reports: list[DecodeReport] = field(default_factory=list)
    buckets: list[BucketResult] = field(default_factory=list)
    waits: list[dict[str, float]] = field(default_factory=list)
    """Seconds that each write task waited for its blobs."""
    failures: list[TidemarkError] = field(default_factory=list)
    """What kept tasks from merging a bucket, and would again."""

    def add(self, other: JobResult) -> None:
        self.reports += other.reports
        self.buckets += other.buckets
        self.waits += other.waits
        self.failures += other.failures

    def messages(self, target: int) -> list[CommitMessage]:
        return [b.message for b in self.buckets if b.target == target]

    def written(self) -> set[tuple[int, BucketId]]:
        """(target index, bucket) of every bucket that a task has a message for."""
        return {(b.target, b.message.bucket) for b in self.buckets}


@dataclass(slots=True)
class AppendedBatch:
    """A batch whose rows are in the tables, and what is left to do for it."""

    batch: BatchRun
    identifiers: tuple[str, ...]
    """Target tables in the order of their indices."""
    result: JobResult
    ends: Mapping[str, Mapping[TopicPartition, int]]
    """Per table: where the batch ended in the topics that feed it."""
    due: tuple[tuple[int, BucketId], ...]
    """(target index, bucket) pairs to compact."""
    clock: Stopwatch
    snapshots: dict[str, tuple[Snapshot, ...]]
    """What is published, per table."""


def process_batch(
    blobs: DataFrame,
    batch: BatchRun,
    tables: PipelineTables,
    settings: TaskSettings,
    compactions: Compactions,
    on_report: Callable[[BatchReport], None],
) -> None:
    """Bring the rows of one batch into its tables, exactly once (the argument stands in ``sinks.table_sink``).

    ``blobs`` are what ``decode_stream.decoded`` makes of the batch's records, not computed yet. What is left to do when
    this returns is handed to ``compactions``, which then calls ``on_report``.
    """
    faults.reached("before-decode", batch.id)
    job = _Job(blobs, batch, tables, compactions, Stopwatch())
    context = blobs.sparkSession.sparkContext
    if settings.spool is None:
        appended = job.through_shuffle(settings)
        compacted: Callable[[], JobResult] = JobResult
    else:
        appended, compacted = job.through_spool(settings, settings.spool)

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
                _discard(plan.write, result)
                raise result.failures[0]
            is_new = self._is_new(result, settings)
            is_split = settings.slots > 1 and any(r.moved_count for r in result.reports)
            if not is_new and not is_split:
                due = [(b.target, b.message.bucket) for b in result.buckets if b.needs_compaction]
                return append(plan, result, self.tables, self.clock, due)
            if is_split:
                settings = replace(settings, slots=1)
            _discard(plan.write, result)
        raise self._never_known()

    def through_spool(self, settings: TaskSettings, spool: Spool) -> tuple[AppendedBatch, Callable[[], JobResult]]:
        """Two Spark jobs: the first leaves the blobs in the spool, the second writes; the driver tells it their names.

        Spark plans a shuffle between two steps in Python anew for every batch, which takes longer than a second job.
        Its tasks announce what they have appended and go on to compact; the function returned waits for the end.
        """
        try:
            plan, reports, slots = self._decoded(settings, spool)
            named = {str(uuid.uuid4()): blobs for blobs in slots}
            writing = self.compactions.start(partial(self._write, plan.write, named, spool))
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
                _discard(plan.write, unpack(writing.result()))
            _discard(plan.write, result)
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

    def _write(self, write_task: WriteTask, slots: dict[str, list[Blob]], spool: Spool) -> list[bytes]:
        """Append the blobs of each task, announced under its name, then compact; gives what the compactions gave."""

        def write(tasks: Iterable[tuple[str, list[Blob]]]) -> Iterator[bytes]:
            for name, blobs in tasks:
                slot = SlotWriter(write_task, blobs)
                spool.announce(name, list(slot.append()))
                yield from slot.compact()

        if not slots:
            return []
        context = self.blobs.sparkSession.sparkContext
        results: list[bytes] = context.parallelize(list(slots.items()), len(slots)).mapPartitions(write).collect()
        return results

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


def append(
    plan: BatchPlan,
    result: JobResult,
    tables: PipelineTables,
    clock: Stopwatch,
    due: Iterable[tuple[int, BucketId]] = (),
) -> AppendedBatch:
    """Publish the rows in every touched table; a table that is not touched gets no snapshot.

    ``due`` are the (target index, bucket) pairs among those written that no task compacts yet.
    """
    unknown_count = sum(b.unknown_count for b in result.buckets)
    if unknown_count:
        log.warning(
            "batch %d: %d values that the source did not send are not known; NULL was written",
            plan.batch.id,
            unknown_count,
        )
    faults.reached("after-write", plan.batch.id)
    offsets: dict[TopicPartition, int] = {}
    for report in result.reports:
        for place, end in report.ends.items():
            offsets[place] = max(end, offsets.get(place, 0))
    topics: defaultdict[str, set[str]] = defaultdict(set)
    for source, identifier in plan.routes.items():
        if identifier is not None:
            topics[identifier].add(source.topic)
    ends = {name: {place: end for place, end in offsets.items() if place[0] in topics[name]} for name in topics}
    without_rows = plan.compactions_without_rows(result.written())
    appended = AppendedBatch(plan.batch, plan.identifiers, result, ends, (*due, *without_rows), clock, {})
    _publish(appended, result, tables)
    clock.lap("append")
    return appended


def compact_batch(
    appended: AppendedBatch,
    tables: PipelineTables,
    settings: TaskSettings,
    run: RunCompactions,
    compacted: JobResult,
) -> BatchReport:
    """Compact what is due, publish that with what is ``compacted`` already, and report on the whole batch.

    It may be lost at any point: the files of the snapshot tell what is to be compacted, see ``unfinished_batches``.
    """
    clock = appended.clock
    result = appended.result
    if appended.due:
        task = CompactTask(plan_write(tables, appended.batch, settings))
        compacted.add(unpack(run(task, appended.due)))
    if compacted.failures:
        _discard(plan_write(tables, appended.batch, settings), compacted)
        raise compacted.failures[0]
    clock.lap("compact")
    _publish(appended, compacted, tables)
    faults.reached("after-compact", appended.batch.id)
    clock.lap("commit")
    result.add(compacted)
    return BatchReport(
        appended.batch.id,
        sum(r.record_count for r in result.reports),
        sum(r.quarantined_count for r in result.reports),
        _table_reports(appended),
        clock.laps,
        _task_seconds(result),
        clock.started_s,
        clock.last_s,
    )


def unfinished_batches(
    tables: PipelineTables, closed_batch: int | None, planned_at_ms: Callable[[int], int | None]
) -> list[AppendedBatch]:
    """Batches of an earlier process that lack compactions which somebody waits for.

    ``closed_batch`` is the last batch that Spark took for done; it runs later ones again.
    """
    due: defaultdict[int, list[tuple[int, BucketId]]] = defaultdict(list)
    for index, sink in enumerate(tables.sinks.values()):
        batch_id = sink.unfinished_batch(closed_batch)
        if batch_id is not None:
            buckets = sink.pending_compactions(batch_id, planned_at_ms(batch_id))
            due[batch_id] += [(index, bucket) for bucket in buckets]
    return [
        AppendedBatch(
            BatchRun(batch_id, planned_at_ms(batch_id)),
            tuple(tables.sinks),
            JobResult(),
            {},
            tuple(of_batch),
            Stopwatch(),
            {},
        )
        for batch_id, of_batch in sorted(due.items())
        if of_batch
    ]


def _publish(appended: AppendedBatch, result: JobResult, tables: PipelineTables) -> None:
    batch = appended.batch

    def on_step(step: str) -> None:
        faults.reached(step, batch.id)

    for index, identifier in enumerate(appended.identifiers):
        messages = [m for m in result.messages(index) if not m.is_empty]
        if not messages:
            continue
        ends = appended.ends.get(identifier, {})
        committed = tables.sinks[identifier].commit(batch.id, messages, ends, on_step, batch.started_ms)
        published = tuple(s for s in (committed.append, committed.compact) if s is not None)
        appended.snapshots[identifier] = appended.snapshots.get(identifier, ()) + published


def _table_reports(appended: AppendedBatch) -> tuple[TableReport, ...]:
    """A report for every table with something to commit."""
    buckets = [[b for b in appended.result.buckets if b.target == i] for i, _ in enumerate(appended.identifiers)]
    return tuple(
        TableReport(
            identifier,
            sum(b.row_count for b in buckets[index]),
            len({b.message.bucket for b in buckets[index] if not b.message.is_empty}),
            tuple(s.id for s in appended.snapshots[identifier]),
            sum(s.changelog_record_count or 0 for s in appended.snapshots[identifier]),
        )
        for index, identifier in enumerate(appended.identifiers)
        if identifier in appended.snapshots
    )


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


def _discard(write: WriteTask, result: JobResult) -> None:
    for index, target in enumerate(write.targets):
        discard(target, result.messages(index))


def _task_seconds(result: JobResult) -> dict[str, float]:
    totals: defaultdict[str, float] = defaultdict(float)
    for seconds_of_part in (*(r.seconds for r in result.reports), *result.waits, *(b.seconds for b in result.buckets)):
        for name, seconds in seconds_of_part.items():
            totals[name] += seconds
    return dict(totals)


class Stopwatch:
    """Wall time between laps, by name."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.laps: dict[str, float] = {}
        self._now = now
        self.started_s = self.last_s = now()

    def lap(self, name: str) -> None:
        now = self._now()
        self.laps[name] = self.laps.get(name, 0.0) + now - self.last_s
        self.last_s = now
