"""Spark's Python workers, started before the first batch needs them."""

from __future__ import annotations

import threading
from contextlib import suppress

from pyspark.sql import SparkSession

from pipelines.spark.session import write_slots


def warm_workers(session: SparkSession) -> None:
    """Start the daemon of the workers, and some workers, while the driver prepares its first batch.

    On a cluster their executors come up with them. Returns at once; without it they come up one after the other.
    """
    slots = write_slots(session)
    tasks = session.sparkContext.parallelize(range(slots), slots).mapPartitions(lambda numbers: numbers)

    def run() -> None:
        with suppress(Exception):  # the first batch fails for the same reason, with a better message
            tasks.count()

    threading.Thread(target=run, name="tidemark-warm-workers", daemon=True).start()
