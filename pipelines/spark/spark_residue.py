"""Leftovers of Spark: empty directories in the working directory, stack traces when its JVM is gone."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_MADE_BY_SPARK = ("spark-", "artifacts")
"""How directories for artifacts begin: 4.0 makes them where the JVM runs, 4.2 among temporary files."""


def leave_no_residue(session: SparkSession) -> None:
    """Remove the directories for artifacts, which stay empty here, and silence the threads that the JVM talks to."""
    _remove_artifacts(session)
    server = session.sparkContext._accumulatorServer

    def ended(_request: object, _address: object) -> None:
        log.debug("the connection for accumulators has ended", exc_info=True)

    if server is not None:
        server.handle_error = ended  # type: ignore[assignment, method-assign]


def _remove_artifacts(session: SparkSession) -> None:
    """Only empty directories are removed; Spark creates them again when it needs them."""
    with suppress(Py4JError):  # another version of Spark may not have it, or create it elsewhere
        made = Path(session._jsparkSession.artifactManager().artifactPath().toString())
        with suppress(OSError):
            for directory in made.parents[:2]:
                if directory.name.startswith(_MADE_BY_SPARK):
                    directory.rmdir()
