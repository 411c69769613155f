"""Calls of the JVM into this process: each of its threads has a connection of its own, with a thread here behind it."""

from __future__ import annotations

from py4j.clientserver import ClientServerConnection
from pyspark.sql import SparkSession


def this_connection(spark: SparkSession) -> ClientServerConnection | None:
    """The connection of the calling thread. Whoever knows that the JVM's thread has ended may close it."""
    gateway = spark.sparkContext._gateway
    found = None if gateway is None else gateway._gateway_client.get_thread_connection()
    return found if isinstance(found, ClientServerConnection) else None
