"""One micro-batch, from top to bottom: plan, decode, follow the schema, write, append; then compact.

``process_batch`` runs on the driver, under Spark inside ``foreachBatch``. Tasks decode the records into blobs, which an
``Exchange`` brings together so that one task owns a bucket, merges and writes. The plan is optimistic: it assumes that
the events show nothing new. If they do (a new table, a new column, a wider type), nothing of that is committed, the
tables follow what was seen and all runs again over the same offsets. With a single write task it runs when rows need
values of rows in other buckets (a changed primary key with values that were not sent).

Once the rows are in the tables (APPEND) Spark may go on. The higher levels and the changelog (COMPACT) follow while
Spark closes the batch, plans the next one and, with tasks on this machine, decodes it. The next batch writes nothing
before they are published, so the snapshots are those of one step after the other.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from paimon_table.errors import (
    BrokenInvariant,
    BucketCountChanged,
    CommitConflict,
    LanesDoNotFit,
    MalformedRecord,
    SchemaChangeRefused,
)
from pipelines.batch.batch_commit import AppendedBatch, append, compact_batch
from pipelines.batch.batch_report import BatchReport, Stopwatch
from pipelines.batch.compactions import Compactions
from pipelines.batch.decode_task import DecodeReport
from pipelines.batch.error_budgets import exceeded_budgets
from pipelines.batch.exchange import Exchange
from pipelines.batch.plan import BatchPlan, BatchRun, TaskSettings, plan_batch, plan_decode
from pipelines.tables.tables import PipelineTables
from sinks import faults
from sinks.write.bucket_task import Failed

log = logging.getLogger(__name__)

MAX_PLANS = 10
"""How often one batch may show something new before that is taken for a fault of ours."""

RESCALE_WAITS_S = (0.0, 0.5, 1.0, 2.0, 4.0)
"""How long a batch waits, before it is planned anew, for somebody who gives one of its tables other buckets."""

CONFLICT_WAITS_S = (0.0, 0.5, 1.0, 2.0, 4.0)
"""How long a batch waits before it is planned anew because others have changed what its keys were placed by."""

_RETRY_WORDS = {BucketCountChanged: "buckets changed", CommitConflict: "commit conflict"}


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
    """Bring the rows of one batch into its tables, exactly once (the argument stands in ``sinks.commit.table_sink``).

    ``check_read`` gets what the tasks read, each time that they have, and raises if that must not be committed.
    What is left to do when this returns is handed to ``compactions``, which then calls ``on_report``.
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
    """Everything up to the APPEND snapshots: after it the rows of the batch are in the tables."""
    clock = Stopwatch()
    waits_s = {BucketCountChanged: list(RESCALE_WAITS_S), CommitConflict: list(CONFLICT_WAITS_S)}
    retries: Counter[str] = Counter()
    for _ in range(MAX_PLANS):
        if exchange.is_one_job:
            compactions.wait()
            clock.lap("wait")
        plan = plan_batch(tables, batch, settings) if exchange.is_one_job else None
        decode = plan_decode(tables, batch, settings) if plan is None else plan.decode
        if settings.quarantine is not None:
            settings.quarantine.clear(batch.id)
        clock.lap("plan")

        reports = exchange.decode(decode, None if plan is None else plan.write)
        clock.lap("decode" if plan is None else "write")
        check_read(reports)
        compactions.wait()
        clock.lap("wait")
        stop_on_refusals(reports, settings)
        is_new = tables.apply(o for report in reports for o in report.observations)
        is_split = decode.slots > 1 and any(report.moved_count for report in reports)
        if is_split:
            settings = replace(settings, slots=1)
        if is_new or (is_split and exchange.is_one_job):
            continue

        plan = plan or plan_batch(tables, batch, settings)
        clock.lap("plan")
        if plan.decode.schema_ids != decode.schema_ids or plan.decode.lanes != decode.lanes:
            continue  # another writer has changed a schema or who owns which keys since the decode step was planned
        keep_budgets(batch, reports, tables, settings)
        written = exchange.write(plan.write, in_one_task=settings.slots == 1)
        clock.lap("write")
        try:
            return replace(append(plan, written, tables, clock), retries=retries)
        except LanesDoNotFit:
            share_keys(plan, written.result.failures, tables)
        except (BucketCountChanged, CommitConflict) as error:
            # Somebody rescales a table: its files and its option change one after the other, or did since the plan.
            # Or others wrote it after the plan, so that keys may have other places.
            left_s = waits_s[type(error)]
            if not left_s:
                raise
            log.info("batch %d: %s; it is planned anew", batch.id, error)
            retries[_RETRY_WORDS[type(error)]] += 1
            time.sleep(left_s.pop(0))
            clock.lap("wait")
    raise BrokenInvariant(
        f"batch {batch.id}: after {MAX_PLANS} plans its events still show something new; please report"
    )


def share_keys(plan: BatchPlan, failures: Sequence[Failed], tables: PipelineTables) -> None:
    """Share the keys of tables as their layout demands, where that is all that failed; else raise what failed."""
    for failure in failures:
        if not isinstance(failure.error, LanesDoNotFit):
            raise failure.error
    for failure in failures:
        if isinstance(failure.error, LanesDoNotFit):
            tables.sinks[plan.identifiers[failure.target]].share_keys(failure.error.lanes)


def keep_budgets(
    batch: BatchRun, reports: Sequence[DecodeReport], tables: PipelineTables, settings: TaskSettings
) -> None:
    """Raise TooManyBadRecords, once the bad records of the batch are out of the quarantine again."""
    exceeded = exceeded_budgets(batch.id, reports, tables)
    for refusal in exceeded.values():
        if settings.quarantine is not None:
            settings.quarantine.clear(batch.id)
        raise refusal


def stop_on_refusals(reports: Iterable[DecodeReport], settings: TaskSettings) -> None:
    """Raise what a record of the batch asks for by policy, before anything of it is committed."""
    for report in reports:
        for refusal in report.refusals:
            raise SchemaChangeRefused(
                f"{refusal.source.topic} partition {refusal.partition} offset {refusal.offset}: {refusal.reason}"
            )
        bad = report.first_quarantined
        if bad is not None and settings.quarantine is None:
            # The reason of a dump's line that is no record has its place, which is none of a topic.
            place = f"{bad.topic} partition {bad.partition} offset {bad.offset}: " if bad.partition >= 0 else ""
            raise MalformedRecord(f"{place}{bad.reason}; mend the record, or set on_bad_record to quarantine")
