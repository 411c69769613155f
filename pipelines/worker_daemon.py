"""Spark's Python worker daemon, started so that tasks begin and end quickly (``spark.python.daemon.module``).

Three things cost more than many of our tasks need, and are avoided here before Spark's own daemon takes over:

- Every Python task of Spark clears the import caches. The path of its workers holds pyspark as a zip file and Spark's
  own jar. Clearing the caches reads the directories of such archives again: 40 ms per archive and task. The daemon
  drops the archives from the path if the same packages are installed in its environment.
- After every task Spark's worker collects garbage, which visits each object of each imported module. The modules of the
  tasks are imported once before the fork and frozen, so that only objects of the tasks are visited. During a task the
  collector runs rarely: a batch of Kafka's client makes tens of thousands of objects, none of them in a cycle.
- Spark's end of the socket holds small writes back until the last one was acknowledged, and Linux acknowledges up to
  40 ms later. Workers ask for acknowledgements at once.

Daemon and workers ignore SIGTERM, which a service manager or a shell may send to all processes at once. The driver lets
the running batch finish. They end when the JVM closes their input.
"""

from __future__ import annotations

import gc
import importlib.util
import io
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

WorkerMain = Callable[[Any, Any], None]
_BUFFER_SIZE = 1 << 16
_NEW_VALUES = 20_000
"""How many new containers start a collection; Python's 700 took 6 % of the processor time per event."""


class PromptInput(io.RawIOBase):
    """The input of a socket, acknowledged at once; ``buffered`` reads the same socket and may hold some input."""

    def __init__(self, buffered: io.BufferedReader, connection: socket.socket) -> None:
        self._buffered = buffered
        self._connection = connection
        self._ask()

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        size = self._buffered.readinto1(target)
        self._ask()
        return size

    def close(self) -> None:
        if not self.closed:
            self._connection.close()
            self._buffered.close()
        super().close()

    def _ask(self) -> None:
        """Linux forgets the wish with the next segment, hence once per read."""
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def promptly(main: WorkerMain) -> WorkerMain:
    """``main`` of a worker, with prompt sockets; as it is where the connection is none over TCP or not Linux."""

    def run(infile: io.BufferedReader, outfile: Any) -> None:
        connection = socket.socket(fileno=os.dup(infile.fileno()))
        if connection.family not in (socket.AF_INET, socket.AF_INET6) or not hasattr(socket, "TCP_QUICKACK"):
            connection.close()
            main(infile, outfile)
            return
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        main(io.BufferedReader(PromptInput(infile, connection), _BUFFER_SIZE), outfile)

    return run


def without_archives(path: list[str]) -> list[str]:
    """``path`` without zip files and jars, if pyspark and py4j are installed as ordinary directories."""
    kept = [entry for entry in path if not entry.endswith((".zip", ".jar"))]
    sys.path_importer_cache.clear()
    before, sys.path = sys.path, kept
    try:
        found = all(importlib.util.find_spec(name) is not None for name in ("pyspark", "py4j"))
    finally:
        sys.path = before
    return kept if found else path


def main() -> None:
    sys.path = without_archives(sys.path)
    sys.path_importer_cache.clear()
    import pyarrow.compute  # noqa: F401 - imported once, shared by all forked workers
    from pyspark import worker

    import pipelines.batch.decode_task  # noqa: F401
    import sinks.write.bucket_task  # noqa: F401

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    worker.main = promptly(worker.main)
    # Spark 4.0 takes the worker's main when its daemon is imported, 4.2 after each fork.
    from pyspark import daemon

    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_VALUES, 20, 20)
    daemon.manager()


if __name__ == "__main__":
    main()
