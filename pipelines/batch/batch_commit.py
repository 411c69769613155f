"""The snapshots of a batch: APPEND with its rows, then COMPACT with the results of its compactions."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from paimon_table import BucketId, Snapshot
from paimon_table.errors import LanesDoNotFit, TidemarkError
from paimon_table.side_by_side import Start, side_by_side
from paimon_table.surroundings import now_ms
from pipelines.batch.batch_checks import check_accounted, counted
from pipelines.batch.batch_report import BatchReport, Stopwatch, TableReport
from pipelines.batch.decode_report import DecodeReport
from pipelines.batch.exchange import Written
from pipelines.batch.job_result import JobResult, unpacked
from pipelines.batch.plan import BatchPlan, BatchRun, TaskSettings, plan_write
from pipelines.batch.table_commits import TableCommits, at_once, by_table
from pipelines.tables.table_failure import TableFailure, blaming, is_of_table
from pipelines.tables.tables import PipelineTables
from sinks import faults
from sinks.commit.positions import TopicPartition
from sinks.write.bucket_task import CompactTask, Failed, WriteTask

log = logging.getLogger(__name__)


@dataclass(slots=True)
class AppendedBatch:
    """A batch whose rows are in the tables, and the remaining work for it."""

    batch: BatchRun
    identifiers: tuple[str, ...]
    """Target tables in the order of their indices."""
    result: JobResult
    ends: Mapping[str, Mapping[TopicPartition, int]]
    """Per table: the end of the batch in the topics that feed it."""
    due: tuple[tuple[int, BucketId], ...]
    """(target index, bucket) pairs to compact."""
    clock: Stopwatch
    snapshots: dict[str, tuple[Snapshot, ...]] = field(default_factory=dict)
    """The published changes, per table."""
    compacting: tuple[tuple[int, BucketId], ...] = ()
    """(target index, bucket) pairs that the write tasks compact themselves."""
    compacted: Callable[[], Iterator[JobResult]] = lambda: iter(())
    """The results of these compactions, one by one, as they finish."""
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The end of the batch in each of its topics."""
    watermarks_ms: Mapping[str, int] = field(default_factory=dict)
    """Per table that has one."""
    emptied: Mapping[str, int] = field(default_factory=dict)
    """The number of rows deleted by TRUNCATE, per table."""
    retries: Mapping[str, int] = field(default_factory=dict)
    """How often it was planned again, by reason."""


MOST_COMPACTIONS = 3
"""How often a batch compacts a table that others compact or rescale at the same time; the next batch retries."""

RunCompactions = Callable[[CompactTask, Sequence[tuple[int, BucketId]]], Iterable[bytes]]
"""Runs a task over (target index, bucket) pairs and yields its pickled results, as they arrive or at the end."""


def append(
    plan: BatchPlan,
    written: Written,
    tables: PipelineTables,
    clock: Stopwatch,
    seal: Callable[[Sequence[DecodeReport]], None] = lambda _: None,
) -> AppendedBatch:
    """Publish the rows in every touched table; an untouched table gets no snapshot.

    ``seal`` records the bad records durably, before anything is published. Nothing is published unless every record is
    accounted for and every task has succeeded. Failures are raised. After a TableFailure the batch can be planned
    again: tables that have its rows are known.
    """
    result = written.result
    if result.failures:
        written.discard(plan.write)
        raise first_failure(plan.identifiers, result.failures)
    check_accounted(plan.batch.id, result.reports)
    for index, name in enumerate(plan.identifiers):
        tables.unsent_warnings.note(plan.batch.id, name, result.unsent(index), now_ms())
    tables.control_notes.note(first for report in result.reports for first in report.control.values())
    tables.note_newest(row for report in result.reports for row in report.newest.values())
    seal(result.reports)
    faults.reached("after-write", plan.batch.id)
    offsets = greatest(report.ends for report in result.reports)
    topics: defaultdict[str, set[str]] = defaultdict(set)
    for source, identifier in plan.routes.items():
        if identifier is not None:
            topics[identifier].add(source.topic)
    ends = {name: {place: end for place, end in offsets.items() if place[0] in topics[name]} for name in topics}
    tables.note_offsets(plan.batch.id, plan.batch.started_ms, ends, (report.read for report in result.reports))
    without_rows = plan.compactions_without_rows(result.written())
    due = (*written.due, *without_rows)
    deletes = tables.truncates.writes(plan.identifiers)
    result.writes[:0] = deletes
    appended = AppendedBatch(
        plan.batch,
        plan.identifiers,
        result,
        ends,
        due,
        clock,
        compacting=written.compacting,
        compacted=written.compacted,
        offsets=offsets,
        watermarks_ms=tables.next_watermarks(greatest(report.event_times_ms for report in result.reports)),
        emptied={plan.identifiers[write.target]: write.row_count for write in deletes},
    )
    with side_by_side(at_once(tables), finishes=True) as start:
        commits = _commits(appended, tables, start)
        commits.begin(result)
    failures = commits.end().failures
    if failures:
        _discard_unpublished(plan, written, ends, tables)
        raise failures[0]
    clock.lap("append")
    tell_emptied(appended)
    return appended


def tell_emptied(appended: AppendedBatch) -> None:
    """Log which tables have followed a TRUNCATE."""
    for identifier, rows in appended.emptied.items():
        log.info(
            "table %s: its source table was truncated: batch %d has deleted its %s rows",
            identifier,
            appended.batch.id,
            f"{rows:,}",
            extra={"event": "table-truncated", "table": identifier, "fields": {"rows": rows}},
        )


def compact_batch(
    appended: AppendedBatch, tables: PipelineTables, settings: TaskSettings, run: RunCompactions
) -> BatchReport:
    """Compact the buckets that are due, publish all compactions, and report on the whole batch.

    A table is published as soon as its own buckets are compacted, so a slow table does not delay the changelogs of the
    others. All of this may be lost at any point: the files of each table's snapshot show what it must compact
    (``unfinished_batches``). If a compaction conflicts with that of another writer, it runs again on the other's
    result. Until then no reader would see the changes of the batch.
    """
    clock, result = appended.clock, appended.result
    ended = _compactions(appended, tables, settings, run)
    awaited = (*appended.compacting, *appended.due)
    for left in reversed(range(MOST_COMPACTIONS)):
        lost = _publish_compacted(appended, by_table(awaited, ended), tables, settings)
        if not lost or not left:
            break
        awaited, ended = _compactions_anew(appended, lost, tables, settings, run)
    clock.lap("compact")
    faults.reached("after-compact", appended.batch.id)
    reports = _table_reports(appended)
    for report in reports:
        tables.late_row_notes.note(appended.batch.id, report.identifier, report.late_row_count, now_ms())
    return BatchReport(
        appended.batch.id,
        sum(r.record_count for r in result.reports),
        counted(result.reports),
        reports,
        clock.laps,
        result.task_seconds,
        clock.started_s,
        clock.last_s,
        sum((r.bad_kinds for r in result.reports), Counter()),
        appended.offsets,
        greatest(report.newest_s for report in result.reports),
        appended.retries,
        tables.reasons_paused,
        sum((r.skipped for r in result.reports), Counter()),
    )


_Number = TypeVar("_Number", int, float)
_Place = TypeVar("_Place")


def greatest(of_tasks: Iterable[Mapping[_Place, _Number]]) -> dict[_Place, _Number]:
    """The greatest number of each place."""
    found: dict[_Place, _Number] = {}
    for numbers in of_tasks:
        for place, number in numbers.items():
            found[place] = max(number, found.get(place, number))
    return found


def unfinished_batches(
    tables: PipelineTables, closed_batch: int | None, planned_at_ms: Callable[[int], int | None]
) -> list[AppendedBatch]:
    """Batches of an earlier process that lack compactions for which readers wait.

    ``closed_batch`` is the last batch that Spark closed; Spark runs later ones again.
    """
    left: defaultdict[int, list[int]] = defaultdict(list)
    sinks = list(tables.sinks.values())
    for index, sink in enumerate(sinks):
        if tables.is_paused(sink.identifier):
            continue
        batch_id = sink.unfinished_batch(closed_batch)
        if batch_id is not None:
            left[batch_id].append(index)
    unfinished = []
    for batch_id, indices in sorted(left.items()):
        batch = BatchRun(batch_id, planned_at_ms(batch_id))
        pending = {i: sinks[i].pending_compactions(batch_id, batch.started_ms) for i in indices}
        due = tuple((i, bucket) for i, buckets in pending.items() for bucket in buckets)
        if due:
            unfinished.append(AppendedBatch(batch, tuple(tables.sinks), JobResult(), {}, due, Stopwatch()))
    return unfinished


def _commits(appended: AppendedBatch, tables: PipelineTables, start: Start) -> TableCommits:
    of = appended.batch, appended.identifiers, appended.ends, appended.watermarks_ms, appended.emptied
    return TableCommits(*of, appended.snapshots, tables, start)


def first_failure(identifiers: Sequence[str], failures: Sequence[Failed]) -> Exception:
    """The error to raise for failed tasks: the first that is not LanesDoNotFit, else LanesDoNotFit."""
    for failed in failures:
        if not isinstance(failed.error, LanesDoNotFit):
            identifier = identifiers[failed.target]
            return TableFailure(identifier, failed.error) if is_of_table(failed.error) else failed.error
    return failures[0].error


def _compactions(
    appended: AppendedBatch, tables: PipelineTables, settings: TaskSettings, run: RunCompactions
) -> Iterator[JobResult]:
    """The results of all compactions, one by one: first those of the write tasks, then the other due buckets."""
    yield from appended.compacted()
    if appended.due:
        write = _plan_of_others(tables, appended.batch, settings)
        due = [(index, bucket) for index, bucket in appended.due if not write.targets[index].is_paused]
        if due:
            yield from map(unpacked, run(CompactTask(write), due))


def _discard_dropped(appended: AppendedBatch, dropped: Collection[str], compacted: JobResult, write: WriteTask) -> None:
    """Delete the files of compactions that lost a conflict: no snapshot names them."""
    for index, name in enumerate(appended.identifiers):
        if name in dropped:
            with suppress(OSError, TidemarkError):
                write.targets[index].context.remove_unpublished(compacted.messages(index))


def _compactions_anew(
    appended: AppendedBatch, lost: Collection[str], tables: PipelineTables, settings: TaskSettings, run: RunCompactions
) -> tuple[tuple[tuple[int, BucketId], ...], Iterator[JobResult]]:
    """The buckets to compact of tables whose compaction was dropped, and the results."""
    batch = appended.batch
    log.info("batch %d: another job has compacted %s too; compacted again", batch.id, ", ".join(sorted(lost)))
    write = _plan_of_others(tables, batch, settings)
    due: list[tuple[int, BucketId]] = []
    for index, name in enumerate(appended.identifiers):
        if name not in lost or write.targets[index].is_paused:
            continue
        try:
            with blaming(name):
                buckets = tables.sinks[name].pending_compactions(batch.id, batch.started_ms)
        except TableFailure as failure:
            tables.pause(failure, batch.id, is_appended=True)
        else:
            due += ((index, bucket) for bucket in buckets)
    return tuple(due), map(unpacked, run(CompactTask(write), due) if due else ())


def _publish_compacted(
    appended: AppendedBatch, compactions: Iterable[JobResult], tables: PipelineTables, settings: TaskSettings
) -> set[str]:
    """Publish the compactions, table by table; a table that fails is paused from the next batch on.

    Returns the tables whose compaction was dropped.
    """
    clock, batch, published = appended.clock, appended.batch, JobResult()
    with side_by_side(at_once(tables), finishes=True) as start:
        commits = _commits(appended, tables, start)
        for compacted in compactions:
            if compacted.failures:
                compacted = _without_failed(compacted, appended, tables, _plan_of_others(tables, batch, settings))
            commits.begin(compacted)
            published.add(compacted)
        clock.lap("compact")
    ended = commits.end()
    for failure in ended.failures:
        tables.pause(failure, batch.id, is_appended=True)
    if ended.dropped:
        _discard_dropped(appended, ended.dropped, published, _plan_of_others(tables, batch, settings))
    appended.result.add(published)
    clock.lap("commit")
    return ended.dropped


def _plan_of_others(tables: PipelineTables, batch: BatchRun, settings: TaskSettings) -> WriteTask:
    """The write side after tables that cannot be planned are paused."""
    while True:
        try:
            return plan_write(tables, batch, settings)
        except TableFailure as failure:
            tables.pause(failure, batch.id, is_appended=True)


def _without_failed(
    compacted: JobResult, appended: AppendedBatch, tables: PipelineTables, write: WriteTask
) -> JobResult:
    """The results of the compactions. Tables whose compaction failed are paused and their files deleted."""
    try:
        for failed in compacted.failures:
            failure = first_failure(appended.identifiers, [failed])
            if not isinstance(failure, TableFailure):
                raise failure
            tables.pause(failure, appended.batch.id, is_appended=True)
    except Exception:
        compacted.discard(write)
        raise
    out = {failed.target for failed in compacted.failures}
    for index in out:
        with suppress(OSError, TidemarkError):
            write.targets[index].context.remove_unpublished(compacted.messages(index))
    return JobResult([], [w for w in compacted.writes if w.target not in out], compacted.waits)


def _discard_unpublished(
    plan: BatchPlan,
    written: Written,
    ends: Mapping[str, Mapping[TopicPartition, int]],
    tables: PipelineTables,
) -> None:
    """Delete the files for tables that did not get the rows of the batch, and all compactions.

    If storage cannot say whether a table has the rows, its files stay.
    """
    compacted = JobResult.of(written.compacted())
    for index, target in enumerate(plan.write.targets):
        with suppress(OSError, TidemarkError):
            target.context.remove_unpublished(compacted.messages(index))
            sink, batch = tables.sinks[target.identifier], plan.batch
            if not sink.has_rows(batch.id, ends.get(target.identifier, {}), batch.started_ms):
                target.context.remove_unpublished(written.result.messages(index))


def _table_reports(appended: AppendedBatch) -> tuple[TableReport, ...]:
    """A report for every table with something to commit."""
    writes = [[w for w in appended.result.writes if w.target == i] for i, _ in enumerate(appended.identifiers)]
    return tuple(
        TableReport(
            identifier,
            sum(w.row_count for w in writes[index]),
            sum(s.changelog_record_count or 0 for s in appended.snapshots[identifier]),
            sum(report.events[index] for report in appended.result.reports),
            appended.result.unsent(index),
            identifier in appended.emptied,
            appended.result.late_rows(index),
        )
        for index, identifier in enumerate(appended.identifiers)
        if identifier in appended.snapshots
    )
