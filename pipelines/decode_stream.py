"""The decode step as part of the streaming plan, and how its tasks get the plan of their batch.

The tasks are planned once per query, not once per batch, and read the records as Spark's source hands them over: every
further operator would copy each record again. What differs from batch to batch, the ``DecodeTask``, travels as a local
property of the Spark job, set by the driver before it runs the job.
"""

from __future__ import annotations

import base64
import pickle
import zlib
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from paimon_table.errors import BrokenInvariant
from pipelines.decode_task import DecodeTask
from sinks.blob import BLOB_DDL

_PROPERTY = "tidemark.decode"


def decoded(records: DataFrame, slots: int) -> DataFrame:
    """Blobs (``BLOB_DDL``) of the records, decoded by at most ``slots`` tasks as the published task says."""

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _published()(batches)

    return records.coalesce(slots).mapInArrow(decode, BLOB_DDL)


def publish(spark: SparkSession, task: DecodeTask) -> None:
    """Let the jobs that this thread starts from now on decode with ``task``."""
    data = base64.b64encode(zlib.compress(pickle.dumps(task), 1)).decode("ascii")
    spark.sparkContext.setLocalProperty(_PROPERTY, data)


def _published() -> DecodeTask:
    context = TaskContext.get()
    data = None if context is None else context.getLocalProperty(_PROPERTY)
    if data is None:
        raise BrokenInvariant("a decode task runs without the plan of its batch; publish it before the job starts")
    task: DecodeTask = pickle.loads(zlib.decompress(base64.b64decode(data)))
    return task
