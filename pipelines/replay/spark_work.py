"""What slices of replays are done with where there is a Spark session."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pipelines.batch.batch_report import BatchReport
from pipelines.batch.decode_stream import decoded
from pipelines.batch.plan import BatchRun, TaskSettings
from pipelines.batch.spark_exchange import MakeExchange
from pipelines.catchup.spark_slices import run_slice
from pipelines.checkpoint.replay_state import ReplayState
from pipelines.config.config import PipelineConfig
from pipelines.replay.replay_job import RunSlice, Stream, Work
from pipelines.spark.spark_errors import told_by_spark
from pipelines.storage import quarantine_of
from pipelines.tables.tables import PipelineTables
from sinks.quarantine import Quarantine
from sources.reader import SourceReader
from sources.slices import Slice

OnSlice = Callable[[ReplayState, BatchReport, PipelineTables], None]
"""Hears what a slice brought into which tables."""


def spark_work(
    spark: SparkSession,
    config: PipelineConfig,
    reader: SourceReader,
    settings: TaskSettings,
    exchange: MakeExchange,
    stream: Stream,
    on_slice: OnSlice = lambda _state, _report, _tables: None,
) -> Callable[[ReplayState], Work]:
    """Gives the work of a replay. Its bad records have a quarantine of their own, as its slices have own numbers.

    ``on_slice`` hears of each slice that is done.
    """
    io, path = quarantine_of(config)

    def told(state: ReplayState, run: RunSlice, batch: BatchRun, tables: PipelineTables, *given: Any) -> BatchReport:
        report = run(batch, tables, *given)
        on_slice(state, report, tables)
        return report

    def work(state: ReplayState) -> Work:
        is_kept = config.source.on_bad_record != "fail"
        quarantine = Quarantine(io, f"{path}/replay-{state.id}") if is_kept else None
        own = replace(settings, quarantine=quarantine, notes_gaps=False, is_again=True)

        def run(batch: BatchRun, tables: PipelineTables, piece: Slice, topics: Collection[str] | None) -> BatchReport:
            def blobs_of(records: DataFrame) -> DataFrame:
                return decoded(records, own.slots, io, reader.share_reader)

            with told_by_spark(f"table {state.table}: Spark gave slice {batch.id} up", reader.explained):
                return run_slice(spark, reader, own, exchange, blobs_of, batch, tables, piece, topics)

        return Work(reader.slices(), partial(told, state, run), stream, config.source.reader.max_records_per_batch)

    return work
