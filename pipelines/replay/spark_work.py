"""What slices of replays are done with where there is a Spark session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from pipelines.batch.decode_stream import decoded
from pipelines.batch.plan import TaskSettings
from pipelines.batch.spark_exchange import MakeExchange
from pipelines.catchup.spark_slices import run_slice
from pipelines.checkpoint.replay_state import ReplayState
from pipelines.config.config import PipelineConfig
from pipelines.replay.replay_job import Stream, Work
from pipelines.storage import quarantine_of
from sinks.quarantine import Quarantine
from sources.reader import SourceReader


def spark_work(
    spark: SparkSession,
    config: PipelineConfig,
    reader: SourceReader,
    settings: TaskSettings,
    exchange: MakeExchange,
    stream: Stream,
) -> Callable[[ReplayState], Work]:
    """Gives the work of a replay. Its bad records have a quarantine of their own, as its slices have own numbers."""
    io, path = quarantine_of(config)

    def work(state: ReplayState) -> Work:
        is_kept = config.source.on_bad_record != "fail"
        quarantine = Quarantine(io, f"{path}/replay-{state.id}") if is_kept else None
        own = replace(settings, quarantine=quarantine, notes_gaps=False, is_again=True)
        run = partial(
            run_slice,
            spark,
            reader,
            own,
            exchange,
            lambda records: decoded(records, own.slots, io, reader.share_reader),
        )
        return Work(reader.slices(), run, stream, config.source.reader.max_records_per_batch)

    return work
