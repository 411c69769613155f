"""Slices beside a stream: how many records each takes, and how it goes through the exchange of the batches.

Batches and slices take turns, so a slice is what all tables of the pipeline lag by while one of them is caught up,
replayed or rebuilt. So a slice has as many records as take about as long for each of them, by what the last slices
took. Part of that is the same for a slice of any size (a commit on object storage); it may take up to half, so that
small slices do not make the work endless.
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
from pipelines.checkpoint.book import Pause
from pipelines.config.config import PipelineConfig
from pipelines.storage import quarantine_of
from pipelines.tables.tables import PipelineTables
from sinks.quarantine import Quarantine
from sources.reader import SourceReader
from sources.slices import Slice

SLICE_S = 2.0
"""How long a slice is to take, unless what is the same for each of them takes more than half of that."""

FIRST_RECORDS = 10_000
LEAST_RECORDS = 1_000
_STEP = 4
"""By how much a slice may be larger or smaller than the one before."""

_ALIKE = 1.5
"""Slices whose sizes differ by less show nothing about the fixed cost of each."""


class SlicePace:
    """Of the slices of one table. One thread."""

    def __init__(self, most_records: int, slice_s: float | None = SLICE_S) -> None:
        """``slice_s`` None: no stream waits, and each slice takes as many records as it may."""
        self._most = most_records
        self._slice_s = slice_s
        self._records = most_records if slice_s is None else min(FIRST_RECORDS, most_records)
        self._last: tuple[int, float] | None = None
        self._same_s = 0.0

    @property
    def records(self) -> int:
        """How many the next slice is to have."""
        return self._records

    def done(self, records: int, seconds: float) -> None:
        """A slice has taken so long."""
        if self._slice_s is None or records <= 0:
            return
        if records * 2 < self._records and seconds <= self._slice_s:
            return  # the end of what there is
        self._same_s = self._seen_same(records, seconds)
        self._last = (records, seconds)
        wanted_s = max(self._slice_s, 2 * self._same_s)
        per_record_s = max(seconds - self._same_s, 0.1 * seconds, 1e-6) / records
        wanted = int((wanted_s - self._same_s) / per_record_s)
        near = max(records // _STEP, min(wanted, self._records * _STEP))
        self._records = max(1, min(self._most, max(LEAST_RECORDS, near)))

    def _seen_same(self, records: int, seconds: float) -> float:
        """What two slices of different sizes took alike."""
        if self._last is None:
            return self._same_s
        other, other_s = self._last
        if max(records, other) < _ALIKE * min(records, other):
            return min(self._same_s, seconds)
        slope_s = (seconds - other_s) / (records - other)
        return min(max(0.0, seconds - slope_s * records), seconds, other_s)


def paced(run: RunSlice, pace: SlicePace, on_slice: Callable[[BatchReport, PipelineTables], None]) -> RunSlice:
    """Brings slices in as ``run`` does, and measures them; ``on_slice`` hears what each has brought to which tables."""

    def measured(batch: BatchRun, tables: PipelineTables, piece: Slice, topics: Collection[str] | None) -> BatchReport:
        began_s = time.monotonic()
        report = run(batch, tables, piece, topics)
        pace.done(report.record_count, time.monotonic() - began_s)
        on_slice(report, tables)
        return report

    return measured


def slice_settings(settings: TaskSettings, pause: Pause, opened: AllOpen) -> TaskSettings:
    """Settings of the tasks of a pause's slices, whose numbers start over: with a quarantine of their own."""
    quarantine = settings.quarantine
    if quarantine is not None:
        quarantine = replace(quarantine, path=quarantine.path + pause.aside_name)
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
