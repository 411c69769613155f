"""Which of the two readers of Kafka a pipeline uses: the tasks themselves by librdkafka, or Spark's."""

from __future__ import annotations

import logging
import os

from pyspark import SparkConf, SparkContext

from pipelines.config.config import PipelineConfig
from sources.kafka.client_properties import why_not_direct

log = logging.getLogger(__name__)


def reads_directly(config: PipelineConfig) -> bool:
    """Whether the decode tasks of a pipeline fetch their records from Kafka themselves."""
    kafka = config.source.kafka
    if kafka is None or kafka.reader != "auto":
        return kafka is not None and kafka.reader == "direct"
    return why_spark_reads(config) is None


def why_spark_reads(config: PipelineConfig) -> str | None:
    """Why ``auto`` leaves a pipeline to Spark's reader; None if it does not."""
    kafka = config.source.kafka
    if kafka is None or kafka.reader != "auto":
        return None
    master = master_of(config)
    if not (master == "local" or master.startswith("local[")):
        return f"the master is {master}"
    found = why_not_direct(kafka.options)
    return None if found is None else str(found)


def say_reader(config: PipelineConfig) -> None:
    """Log it where properties choose the reader."""
    why = why_spark_reads(config)
    if why is None:
        return
    log.info(
        "%s: reads Kafka with Spark's reader: %s. To set this explicitly, write `source.kafka.reader: spark` in "
        "the file",
        config.name,
        why,
    )
    if "target_batch_duration" in config.trigger.model_fields_set:
        log.warning(
            "%s: `trigger.target_batch_duration` has no effect with Spark's reader: only `max_records_per_batch` "
            "limits a batch",
            config.name,
        )


def master_of(config: PipelineConfig) -> str:
    """The master in the file, or else that of ``spark-submit``, or else all cores of this machine."""
    if config.spark.master is not None:
        return config.spark.master
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()
        return SparkConf().get("spark.master", "local[*]") or "local[*]"
    return "local[*]"
