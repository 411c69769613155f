"""Slices alongside a stream: how long each takes, and how it goes through the exchange of the batches.

Batches and slices take turns. While one table is caught up, replayed or rebuilt, all tables of the pipeline lag by the
length of a slice. Therefore all slices take about the same time (``sources.pace``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from paimon_table.errors import BrokenInvariant
from pipelines.batch.batch import process_batch
from pipelines.batch.batch_report import BatchReport
from pipelines.batch.compactions import Compactions
from pipelines.batch.decode_stream import decoded
from pipelines.batch.plan import BatchRun, TaskSettings
from pipelines.batch.spark_exchange import MakeExchange
from pipelines.batch.step_facts import AllOpen
from pipelines.catchup.reading import RunSlice
from pipelines.catchup.slice_settings import again_settings, slice_settings
from pipelines.checkpoint.book import Pause
from pipelines.config.config import PipelineConfig
from pipelines.storage import quarantine_of
from pipelines.tables.tables import PipelineTables
from sinks.quarantine import Quarantine
from sources.pace import Pace
from sources.reader import SourceReader
from sources.slices import Slice

SLICE_S = 2.0
"""How long a slice is to take, unless the fixed time of each slice is more than half of this."""


def paced(run: RunSlice, pace: Pace, on_slice: Callable[[BatchReport, PipelineTables], None]) -> RunSlice:
    """Applies slices as ``run`` does, and measures them; ``on_slice`` gets the result of each by table."""

    def measured(batch: BatchRun, tables: PipelineTables, piece: Slice, topics: Collection[str] | None) -> BatchReport:
        began_s = time.monotonic()
        report = run(batch, tables, piece, topics)
        pace.done(report.record_count, time.monotonic() - began_s)
        on_slice(report, tables)
        return report

    return measured


@dataclass(frozen=True, slots=True)
class SparkSlices:
    """Does slices of a pipeline's source with the settings and by the exchange of its batches."""

    spark: SparkSession
    config: PipelineConfig
    reader: SourceReader
    settings: TaskSettings
    exchange: MakeExchange
    opened: AllOpen

    def with_quarantine(self, quarantine: Quarantine, rebuild: str = "") -> SparkSlices:
        """The same for separately numbered slices, whose bad records go to this quarantine."""
        return replace(self, settings=again_settings(self.settings, quarantine, self.opened, rebuild))

    def of_pause(self, pause: Pause) -> SparkSlices:
        """The same for a paused table."""
        return replace(self, settings=slice_settings(self.settings, pause, self.opened))

    def run(self, batch: BatchRun, tables: PipelineTables, piece: Slice, topics: Collection[str] | None) -> BatchReport:
        """Bring one slice into ``tables``; returns when its compactions are committed too. See ``RunSlice``."""
        quarantine_io, _ = quarantine_of(self.config)
        slots = self.settings.slots
        records = self.reader.slices().records(self.spark, piece, topics, slots)
        blobs = decoded(records, slots, quarantine_io, self.settings.decoder, self.reader.share_reader)
        compactions, reports = Compactions(), list[BatchReport]()
        exchange = self.exchange(blobs, compactions)
        process_batch(batch, tables, self.settings, exchange, compactions, reports.append)
        compactions.wait()
        if not reports:
            raise BrokenInvariant(f"slice {batch.id} ended without a report; please report this")
        return reports[0]
