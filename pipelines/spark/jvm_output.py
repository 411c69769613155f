"""The output of Spark's JVM and its Python workers: kept for error reports and not shown at once.

Spark's launcher, Ivy and the JVM announce themselves at every start. Their lines become messages at DEBUG; errors that
Spark logs become warnings. The output of a JVM that spark-submit started goes where spark-submit sends it.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections import deque
from collections.abc import Sequence

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from pipelines.spark.fetched_packages import fetching

log = logging.getLogger(__name__)

KEPT_LINES = 200
_WAIT_S = 1.0
"""For the last words of a JVM that has ended."""

_ERRORS = ("spark ERROR", "spark FATAL")
"""How lines of errors begin in log4j2.properties."""

_TOLD_AGAIN = re.compile(r"spark ERROR (?:TaskContextImpl|TorrentBroadcast):")
"""Errors of threads behind a task, or of those that give it its plan: the task fails too, and its failure is logged."""

_FETCHED = re.compile(r"downloading \S*/([^/\s]+\.(?:jar|pom))\b")
"""Ivy's lines about each file that it fetches."""

_FRAME = re.compile(r"\s+(?:at \S|\.\.\. \d+ more)")
"""A line of a Java stack; the fault, with the path of a file, is above it."""

_TROUBLE = re.compile(r"error|exception|fatal|out of memory|insufficient", re.IGNORECASE)


class JvmOutput:
    """The newest lines of the JVM that this process starts."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._reader: threading.Thread | None = None

    def launch(self, conf: SparkConf, directory: str | None = None, home: str | None = None) -> bool:
        """Start the JVM with these properties, in ``directory``, unless one exists; returns whether it was started.

        ``home`` is the home directory of a user whom the system does not know. Raises PySparkRuntimeError.
        """
        if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
            return False
        self._lines.clear()
        read, write = os.pipe()
        self._reader = threading.Thread(target=self._read, args=(read,), name="tidemark-jvm-output", daemon=True)
        self._reader.start()
        try:
            with fetching(dict(conf.getAll()), home):
                gateway: JavaGateway = launch_gateway(  # type: ignore[no-untyped-call]
                    conf, {"stdout": write, "stderr": write, "cwd": directory}
                )
        finally:
            os.close(write)
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)
        return True

    def tail(self, count: int = 20) -> str:
        """The newest lines except stack traces, each after a line break; empty if there is no line.

        Waits for the last words of a JVM that has ended.
        """
        return _indented([line for line in self._all() if not _FRAME.match(line)][-count:])

    def troubles(self) -> str:
        """As ``tail``, of the last five lines with an error."""
        return _indented([line for line in self._all() if _TROUBLE.search(line)][-5:])

    def _all(self) -> list[str]:
        if self._reader is not None:
            self._reader.join(_WAIT_S)
        return list(self._lines)

    def _read(self, descriptor: int) -> None:
        with open(descriptor, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                text = line.rstrip()
                if text:
                    self._lines.append(text)
                    fetched = _FETCHED.match(text)
                    if fetched is not None:
                        log.info("fetching %s", fetched[1])
                    is_shown = text.startswith(_ERRORS) and not _TOLD_AGAIN.match(text)
                    log.log(logging.WARNING if is_shown else logging.DEBUG, "%s", text)


def _indented(lines: Sequence[str]) -> str:
    return "".join(f"\n  {line}" for line in lines)


JVM_OUTPUT = JvmOutput()
"""A process has one JVM."""
