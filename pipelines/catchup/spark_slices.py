"""Slices as Spark jobs: the records of a slice go through the exchange of the pipeline's batches."""

from __future__ import annotations

from collections.abc import Collection
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
from pipelines.checkpoint.behind_marks import BehindMark
from pipelines.config.config import PipelineConfig
from pipelines.storage import quarantine_of
from pipelines.tables.tables import PipelineTables
from sinks.quarantine import Quarantine
from sources.reader import SourceReader
from sources.slices import Slice


def slice_settings(settings: TaskSettings, mark: BehindMark, opened: AllOpen) -> TaskSettings:
    """Settings of the tasks of a mark's slices, whose numbers begin anew: with a quarantine of their own."""
    quarantine = settings.quarantine
    if quarantine is not None:
        quarantine = replace(quarantine, path=quarantine.path + mark.aside_name)
    return again_settings(settings, quarantine, opened)


def again_settings(
    settings: TaskSettings, quarantine: Quarantine | None, opened: AllOpen, rebuild: str = ""
) -> TaskSettings:
    """Settings of tasks that read records again which the stream has gone by."""
    return replace(
        settings,
        quarantine=quarantine,
        notes_gaps=False,
        log=opened.log,
        reads_again=opened,
        topic_ids=opened.topic_ids,
        rebuild=rebuild,
    )


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
        """The same for slices with numbers of their own, whose bad records go there."""
        return replace(self, settings=again_settings(self.settings, quarantine, self.opened, rebuild))

    def of_mark(self, mark: BehindMark) -> SparkSlices:
        """The same for the table of a mark."""
        return replace(self, settings=slice_settings(self.settings, mark, self.opened))

    def run(self, batch: BatchRun, tables: PipelineTables, piece: Slice, topics: Collection[str] | None) -> BatchReport:
        """Bring one slice into ``tables``; returns when its compactions are committed too. See ``RunSlice``."""
        quarantine_io, _ = quarantine_of(self.config)
        slots = self.settings.slots
        records = self.reader.slices().records(self.spark, piece, topics, slots)
        blobs = decoded(records, slots, quarantine_io, self.reader.share_reader)
        compactions, reports = Compactions(), list[BatchReport]()
        exchange = self.exchange(blobs, compactions)
        process_batch(batch, tables, self.settings, exchange, compactions, reports.append)
        compactions.wait()
        if not reports:
            raise BrokenInvariant(f"slice {batch.id} ended without a report; please report this")
        return reports[0]
