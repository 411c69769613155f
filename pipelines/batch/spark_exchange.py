"""Which way blobs go from task to task of a Spark session."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from pipelines.batch.compactions import Compactions
from pipelines.batch.exchange import Exchange
from pipelines.batch.shuffle_exchange import ShuffleExchange
from pipelines.batch.spool_exchange import SpoolExchange
from pipelines.batch.spooled_writes import SpooledWrites

MakeExchange = Callable[[DataFrame, Compactions], Exchange]


def spark_exchange(writes: SpooledWrites | None, blobs: DataFrame, compactions: Compactions) -> Exchange:
    """The exchange of one batch, or slice: by way of the files of ``writes``, without them through Spark's shuffle."""
    return ShuffleExchange(blobs) if writes is None else SpoolExchange(blobs, writes, compactions.start_job)
