"""Slices of replays in the process of the command, where nobody runs the pipeline: with a Spark session of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from paimon_table.errors import ConfigError
from pipelines.bad_records.facts import TableJudge, settle
from pipelines.bad_records.log import QuarantineLog
from pipelines.batch.plan import TaskSettings
from pipelines.batch.spark_exchange import spark_exchange
from pipelines.batch.spooled_writes import SpooledWrites
from pipelines.batch.step_facts import AllOpen
from pipelines.catchup.reading import StreamEnd
from pipelines.catchup.slices import SparkSlices
from pipelines.config.config import PipelineConfig
from pipelines.prepared import commit_user, prepared
from pipelines.replay.replay_slices import ReplaySlices, ReplayWork
from pipelines.spark.java import check_java
from pipelines.spark.session import lookup_root, open_session, spool, write_slots
from pipelines.storage import quarantine_of


@contextmanager
def local_slices(config: PipelineConfig) -> Iterator[ReplaySlices]:
    """Does slices for the length of the block; whoever calls holds the checkpoint."""
    check_java()
    pipeline = prepared(config)
    if pipeline.query_id is None:
        raise ConfigError(f"pipeline {config.name} has never run under checkpoint {config.checkpoint}")
    user = commit_user(config, pipeline.query_id)
    spark = open_session([config], is_short=True)
    try:
        shared, slots = spool(spark), write_slots(spark)
        settings = TaskSettings(config.source.format.decoder, slots, lookup_root(spark), None, shared)
        writes = None if shared is None else SpooledWrites(spark.sparkContext, slots, shared)
        reader, ids = pipeline.reader.slices(), lambda: pipeline.book.topic_ids
        stream = StreamEnd(config, pipeline.checkpoint, pipeline.catalog, reader, ids)
        pipeline.reader.attach(spark)
        opened = AllOpen(QuarantineLog(*quarantine_of(config)), pipeline.catalog, lambda: pipeline.book.topic_ids)
        settle(opened.log, TableJudge(pipeline.catalog))
        slices = SparkSlices(spark, config, pipeline.reader, settings, partial(spark_exchange, writes), opened)
        yield ReplaySlices(config, pipeline.checkpoint, pipeline.own, ReplayWork(slices, stream), user)
    finally:
        spark.stop()
