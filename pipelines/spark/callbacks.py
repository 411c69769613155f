"""Calls of the JVM into this process: each of its threads has a connection of its own, with a thread here behind it."""

from __future__ import annotations

import socket
from contextlib import suppress

from py4j.clientserver import ClientServerConnection
from pyspark.sql import SparkSession


def this_connection(spark: SparkSession) -> ClientServerConnection | None:
    """The connection of the calling thread. Call it only once the JVM's thread has ended."""
    gateway = spark.sparkContext._gateway
    found = None if gateway is None else gateway._gateway_client.get_thread_connection()
    return found if isinstance(found, ClientServerConnection) else None


def end_connection(connection: ClientServerConnection) -> None:
    """Let the thread behind the connection end; it waits for a call, and closes the connection then itself."""
    if connection.socket is not None:
        with suppress(OSError):
            connection.socket.shutdown(socket.SHUT_RDWR)
