"""One micro-batch, from top to bottom: plan, decode, follow the schema, write, append; then compact.

``process_batch`` runs on the driver, under Spark inside ``foreachBatch``. Tasks decode the records into blobs, which an
``Exchange`` groups so that one task owns a bucket, merges and writes. The plan is optimistic: it assumes that the
events need no schema change. If they do (a new table, a new column, a wider type), the run commits nothing. The tables
follow the observations, and the batch runs again over the same offsets. It also runs again, with a single write task,
when rows need values of rows in other buckets (a changed primary key with unavailable values).

Once the rows are in the tables (APPEND), Spark may continue. The higher levels and the changelog (COMPACT) follow while
Spark closes the batch, plans the next one and, with tasks on this machine, decodes it. The next batch writes nothing
before they are published, so the snapshots have the same order as the steps.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import gcd
from typing import TypeAlias

from paimon_table.errors import (
    BrokenInvariant,
    LanesDoNotFit,
)
from pipelines.batch.attempts import Attempts
from pipelines.batch.batch_checks import keep_budgets, stop_on_refusals
from pipelines.batch.batch_commit import AppendedBatch, append, compact_batch
from pipelines.batch.batch_report import BatchReport, Stopwatch
from pipelines.batch.compactions import Compactions
from pipelines.batch.decode_report import DecodeReport
from pipelines.batch.exchange import Exchange, Written
from pipelines.batch.plan import BatchPlan, BatchRun, TaskSettings, plan_batch, plan_decode, writes_in_place
from pipelines.batch.step_facts import StepFacts, step_facts
from pipelines.tables.table_failure import TableFailure
from pipelines.tables.tables import PipelineTables
from sinks import faults
from sinks.write.bucket_task import Failed

log = logging.getLogger(__name__)

MAX_PLANS = 10
"""How often one batch may need schema changes before that counts as a bug in Tidemark."""


CheckRead: TypeAlias = Callable[[Sequence[DecodeReport]], None]


def process_batch(
    batch: BatchRun,
    tables: PipelineTables,
    settings: TaskSettings,
    exchange: Exchange,
    compactions: Compactions,
    on_report: Callable[[BatchReport], None],
    check_read: CheckRead = lambda _: None,
) -> None:
    """Write the rows of one batch to its tables, exactly once (see ``sinks.commit.table_sink`` for the argument).

    Tidemark calls ``check_read`` with the ranges that the tasks have read, after each reading; it raises if the batch
    must not be committed. ``compactions`` gets the unfinished work, and then calls ``on_report``.
    """
    faults.reached("before-decode", batch.id)
    try:
        appended = append_batch(batch, tables, settings, exchange, compactions, check_read)
    finally:
        exchange.close()
    compactions.start(lambda: on_report(compact_batch(appended, tables, settings, exchange.compact)))


def append_batch(
    batch: BatchRun,
    tables: PipelineTables,
    settings: TaskSettings,
    exchange: Exchange,
    compactions: Compactions,
    check_read: CheckRead = lambda _: None,
) -> AppendedBatch:
    """All steps up to the APPEND snapshots, which add the rows of the batch to the tables.

    If a table fails, it is retried where that may help. If it fails again, it is paused, and the batch is planned again
    without it.
    """
    try:
        return _append_until_known(batch, tables, settings, exchange, compactions, check_read)
    finally:
        tables.truncates.end()


def _append_until_known(
    batch: BatchRun,
    tables: PipelineTables,
    settings: TaskSettings,
    exchange: Exchange,
    compactions: Compactions,
    check_read: CheckRead,
) -> AppendedBatch:
    clock, attempts = Stopwatch(), Attempts()
    while attempts.plans < MAX_PLANS:
        attempts.plans += 1
        try:
            appended = _append_planned(batch, tables, settings, exchange, compactions, check_read, attempts, clock)
        except TableFailure as failure:
            if tables.take_nulls(failure):
                attempts.plans = 0
                continue
            wait_s = attempts.wait_s(failure)
            if wait_s is None:
                tables.pause(failure, batch.id)
                attempts.plans = 0
                continue
            log.info("batch %d: %s; Tidemark plans it again", batch.id, failure)
            attempts.note_retry(failure)
            time.sleep(wait_s)
            clock.lap("wait")
            continue
        if appended is not None:
            return replace(appended, retries=attempts.retries)
    raise BrokenInvariant(
        f"batch {batch.id}: after {MAX_PLANS} plans, its events still need schema changes; please report"
    )


def _append_planned(
    batch: BatchRun,
    tables: PipelineTables,
    settings: TaskSettings,
    exchange: Exchange,
    compactions: Compactions,
    check_read: CheckRead,
    attempts: Attempts,
    clock: Stopwatch,
) -> AppendedBatch | None:
    """One attempt; None if the batch shows something unknown to the plan, so that it must be planned again."""
    if attempts.in_one_task:
        settings = replace(settings, slots=1)
    is_one_job = exchange.is_one_job or writes_in_place(tables)
    if is_one_job:
        compactions.wait()
        clock.lap("wait")
    facts = step_facts(settings, batch, tables, is_first=attempts.plans == 1)
    settings = replace(settings, quarantine=facts.quarantine, read_again=facts.read_again)
    reports: Sequence[DecodeReport] = ()
    paused = tables.paused
    plan = plan_batch(tables, batch, settings) if is_one_job else None
    decode = plan_decode(tables, batch, settings) if plan is None else plan.decode
    clock.lap("plan")
    try:
        reports = exchange.decode(decode, None if plan is None else plan.write)
        clock.lap("decode" if plan is None else "write")
        check_read(reports)
        compactions.wait()
        clock.lap("wait")
        if tables.find_formats(look for report in reports for look in report.looks):
            return None
        stop_on_refusals(reports, settings, tables)
        newest = [row for report in reports for row in report.newest.values()]
        is_new = tables.apply((o for report in reports for o in report.observations), newest)
        truncations = [t for report in reports for t in report.truncations]
        read = {place for report in reports for place in report.read}
        is_new |= tables.note_truncations(truncations, read, batch.id, batch.started_ms)
        if not is_new:
            is_new = tables.follow_newest(newest)
        is_split = decode.slots > 1 and any(report.moved_count for report in reports)
        attempts.in_one_task |= is_split
        if is_new or (is_split and is_one_job):
            return None
        if is_split:
            settings = replace(settings, slots=1)

        plan = plan or plan_batch(tables, batch, settings)
        clock.lap("plan")
        if tables.paused != paused:
            return None  # compactions of the previous batch have failed since the decode step was planned
        if plan.decode.schema_ids != decode.schema_ids or plan.decode.lanes != decode.lanes:
            return None  # another writer has changed a schema or the owners of keys since then
        if plan.decode.floors != decode.floors:
            return None  # another process of the pipeline has committed rows of these offsets
        keep_budgets(batch, reports, tables)
        written = exchange.write(plan.write, in_one_task=settings.slots == 1)
        clock.lap("write")
        return _append(plan, written, tables, clock, facts)
    finally:
        facts.discard(reports)


def _append(
    plan: BatchPlan, written: Written, tables: PipelineTables, clock: Stopwatch, facts: StepFacts
) -> AppendedBatch | None:
    """Publish the rows, with the facts about bad records before and after; None if keys must be assigned again."""
    try:
        appended = append(plan, written, tables, clock, facts.seal)
    except LanesDoNotFit:
        share_keys(plan, written.result.failures, tables)
        return None
    facts.applied(appended.snapshots)
    return appended


def share_keys(plan: BatchPlan, failures: Sequence[Failed], tables: PipelineTables) -> None:
    """Change the lanes of tables so that they fit the layout that all their tasks found."""
    fitting: dict[int, int] = {}
    for failure in failures:
        if isinstance(failure.error, LanesDoNotFit):
            fitting[failure.target] = gcd(fitting.get(failure.target, 0), failure.error.lanes)
    for target, lanes in fitting.items():
        tables.sinks[plan.identifiers[target]].share_keys(lanes)
