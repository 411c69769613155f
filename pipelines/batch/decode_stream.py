"""The decode step as part of the streaming plan, and how its tasks get the plan of their batch.

Spark plans the tasks once per query, not once per batch. They take what Spark's source gives them: records, or shares
of a batch that they read themselves. Every further operator would copy each record again. The ``DecodeTask`` differs
from batch to batch. It travels as a local property of the Spark job, which the driver sets before it runs the job.
Spark may write properties to its event log. So values that may hold credentials travel with the code instead: the
storage of the quarantine, and the decoder, which may ask a schema registry.
"""

from __future__ import annotations

import base64
import pickle
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from paimon_table.errors import BrokenInvariant
from paimon_table.storage.file_io import FileIO
from pipelines.batch.decode_task import DecodeTask
from sinks.exchange.blob import BLOB_DDL
from sinks.quarantine import Quarantine
from sources.decode_target import Decoder
from sources.reader import ShareReader

_PROPERTY = "tidemark.decode"


def decoded(
    source: DataFrame, slots: int, quarantine_io: FileIO, decoder: Decoder, reader: ShareReader | None = None
) -> DataFrame:
    """Blobs (``BLOB_DDL``) of the records, decoded by at most ``slots`` tasks as the published task says.

    ``source`` holds the records, or in its one column the shares that ``reader`` reads.
    """

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = replace(_published(quarantine_io), decoder=decoder)
        return task(batches if reader is None else reader(_shares(batches)))

    return source.coalesce(slots).mapInArrow(decode, BLOB_DDL)


def _shares(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def publish(spark: SparkSession, task: DecodeTask) -> None:
    """Let the jobs that this thread starts from now on decode with ``task``."""
    bad = task.quarantine
    # The placeholder is never called: ``decoded`` replaces it by the decoder of the query.
    bare = replace(task, quarantine=None, decoder=cast(Decoder, None))
    without_secrets = (bare, None if bad is None else (bad.path, bad.takes_bad, bad.run))
    data = base64.b64encode(zlib.compress(pickle.dumps(without_secrets), 1)).decode("ascii")
    spark.sparkContext.setLocalProperty(_PROPERTY, data)


def _published(quarantine_io: FileIO) -> DecodeTask:
    context = TaskContext.get()
    data = None if context is None else context.getLocalProperty(_PROPERTY)
    if context is None or data is None:
        raise BrokenInvariant("a decode task runs without the plan of its batch; publish it before the job starts")
    task: DecodeTask
    task, bad = pickle.loads(zlib.decompress(base64.b64decode(data)))
    if bad is None:
        return task
    path, takes_bad, run = bad
    return replace(task, quarantine=Quarantine(quarantine_io, path, context.partitionId(), takes_bad, run))
