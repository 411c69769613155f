"""The end of a streaming query that is asked to stop, also while Kafka does not answer its request for offsets.

Between two batches Spark asks Kafka three times, a minute each, before it gives up. An interrupted query has planned
nothing yet, or a batch that runs at the next start. Last, the query closes Kafka's client, which waits for the same
answer: a second interrupt ends this wait too.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

from py4j.clientserver import ClientServerConnection
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

PATIENCE_S = 3.0
"""How long Kafka may take for offsets while the query is to end."""
AGAIN_S = 2.0
MOST_S = 6.0
"""The most seconds that an interrupted query may take to end; it no longer does anything that matters."""

_ASKS_KAFKA = "Getting offsets from Kafka"
"""The beginning of Spark's status text at that time. Other sources answer soon, or do not heed an interrupt."""


class QueryEnd:
    """Polled while the query ends and runs no batch."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._asks_since_s: float | None = None
        self._interrupted_s: float | None = None
        self._stops: list[threading.Thread] = []

    @property
    def is_awaited(self) -> bool:
        """Whether an interrupted query is about to end."""
        since_s = self._interrupted_s
        is_in_time = since_s is not None and time.monotonic() - since_s < MOST_S
        return is_in_time and any(stop.is_alive() for stop in self._stops)

    def poll(self) -> None:
        """Stop the query if it is idle, or has asked Kafka for too long."""
        if self._interrupted_s is not None:
            if time.monotonic() - self._interrupted_s >= AGAIN_S * len(self._stops):
                self._interrupt()
            return
        status = self._query.status
        if not status["isTriggerActive"]:
            self._query.stop()
        elif not str(status["message"]).startswith(_ASKS_KAFKA):
            self._asks_since_s = None
        elif self._asks_since_s is None:
            self._asks_since_s = time.monotonic()
        elif time.monotonic() - self._asks_since_s >= PATIENCE_S:
            self._interrupted_s = time.monotonic()
            self._interrupt()

    def _interrupt(self) -> None:
        """Runs on a separate thread, because Spark's call returns only when the query has ended."""
        stop = threading.Thread(target=self._stop, name="tidemark-query-end", daemon=True)
        self._stops.append(stop)
        stop.start()

    def _stop(self) -> None:
        try:
            self._query.stop()
        except (PySparkException, Py4JError, OSError):
            return  # it takes longer than Spark's limit, or the JVM has ended


def this_connection(spark: SparkSession) -> ClientServerConnection | None:
    """The connection of the calling thread. Whoever knows that the JVM's thread has ended may end it."""
    gateway = spark.sparkContext._gateway
    found = None if gateway is None else gateway._gateway_client.get_thread_connection()
    return found if isinstance(found, ClientServerConnection) else None


def end_connection(connection: ClientServerConnection) -> None:
    """End the thread of the connection, which waits for a call and then closes the connection itself."""
    if connection.socket is not None:
        with suppress(OSError):
            connection.socket.shutdown(socket.SHUT_RDWR)
