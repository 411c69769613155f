"""What slices of replays are done with where there is a Spark session."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from pipelines.bad_records.log import replay_owner
from pipelines.batch.batch_report import BatchReport
from pipelines.batch.plan import BatchRun
from pipelines.catchup.slices import SlicePace, SparkSlices
from pipelines.checkpoint.replay_state import ReplayState
from pipelines.replay.replay_job import Stream, Work
from pipelines.spark.spark_errors import told_by_spark
from pipelines.storage import quarantine_under
from pipelines.tables.tables import PipelineTables
from sources.slices import Slice

OnSlice = Callable[[ReplayState, BatchReport, PipelineTables], None]
"""Hears what a slice brought into which tables."""


def spark_work(
    slices: SparkSlices,
    stream: Stream,
    on_slice: OnSlice = lambda _state, _report, _tables: None,
    *,
    slice_s: float | None = None,
) -> Callable[[ReplayState], Work]:
    """Gives the work of a replay. Its bad records have a quarantine of their own, as its slices have own numbers.

    ``on_slice`` hears of each slice that is done. ``slice_s`` says how long a slice is to take where a stream waits for
    it (``SlicePace``).
    """
    config, reader = slices.config, slices.reader
    paces: dict[str, SlicePace] = {}

    def work(state: ReplayState) -> Work:
        rebuild = "" if state.rebuild is None else state.id
        own = slices.with_quarantine(quarantine_under(config, replay_owner(state.id)), rebuild)

        pace = paces.setdefault(state.table, SlicePace(config.source.reader.max_records_per_batch, slice_s))

        def run(batch: BatchRun, tables: PipelineTables, piece: Slice, topics: Collection[str] | None) -> BatchReport:
            with told_by_spark(f"table {state.table}: Spark gave slice {batch.id} up", reader.explained):
                began_s = time.monotonic()
                report = own.run(batch, tables, piece, topics)
                pace.done(report.record_count, time.monotonic() - began_s)
            on_slice(state, report, tables)
            return report

        return Work(reader.slices(), run, stream, lambda: pace.records)

    return work
