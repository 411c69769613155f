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
from pipelines.catchup.slices import SparkSlices
from pipelines.checkpoint.checkpoint import commit_user
from pipelines.config.config import PipelineConfig
from pipelines.prepared import prepared
from pipelines.replay.closed_stream import ClosedStream
from pipelines.replay.replay_requests import ReplaySlices
from pipelines.replay.spark_work import spark_work
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
        settings = TaskSettings(config.decoder, slots, lookup_root(spark), None, shared)
        writes = None if shared is None else SpooledWrites(spark.sparkContext, slots, shared)
        stream = ClosedStream(config.name, user, pipeline.checkpoint, pipeline.catalog)
        pipeline.reader.attach(spark)
        opened = AllOpen(QuarantineLog(*quarantine_of(config)), pipeline.catalog, lambda: pipeline.book.topic_ids)
        settle(opened.log, TableJudge(pipeline.catalog))
        slices = SparkSlices(spark, config, pipeline.reader, settings, partial(spark_exchange, writes), opened)
        work = spark_work(slices, stream)
        yield ReplaySlices(config, pipeline.checkpoint, pipeline.own, work, user)
    finally:
        spark.stop()
