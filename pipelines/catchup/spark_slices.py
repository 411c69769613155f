"""Slices as Spark jobs: the records of a slice go through the exchange of the pipeline's batches."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession

from paimon_table.errors import BrokenInvariant
from pipelines.batch.batch import process_batch
from pipelines.batch.batch_report import BatchReport
from pipelines.batch.compactions import Compactions
from pipelines.batch.plan import BatchRun, TaskSettings
from pipelines.batch.spark_exchange import MakeExchange
from pipelines.checkpoint.behind_marks import BehindMark
from pipelines.tables.tables import PipelineTables
from sinks.quarantine import Quarantine
from sources.reader import SourceReader
from sources.slices import Slice


def slice_settings(settings: TaskSettings, mark: BehindMark) -> TaskSettings:
    """Settings of the tasks of a mark's slices, whose numbers begin anew: with a quarantine of their own."""
    quarantine = settings.quarantine
    if quarantine is not None:
        path = f"{quarantine.path}+{quote(mark.table, safe='')}-{mark.since_ms}"
        quarantine = Quarantine(quarantine.io, path, quarantine.task)
    return replace(settings, quarantine=quarantine, notes_gaps=False, is_again=True)


def run_slice(
    spark: SparkSession,
    reader: SourceReader,
    settings: TaskSettings,
    exchange: MakeExchange,
    blobs_of: Callable[[DataFrame], DataFrame],
    batch: BatchRun,
    tables: PipelineTables,
    piece: Slice,
    topics: Collection[str] | None,
) -> BatchReport:
    """Bring one slice into ``tables``; returns when its compactions are committed too."""
    records = reader.slices().records(spark, piece, topics, settings.slots)
    compactions, reports = Compactions(), list[BatchReport]()
    blobs = blobs_of(records)
    process_batch(batch, tables, settings, exchange(blobs, compactions), compactions, reports.append)
    compactions.wait()
    if not reports:
        raise BrokenInvariant(f"slice {batch.id} ended without a report; please report this")
    return reports[0]
