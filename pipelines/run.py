"""Run pipelines: start Spark and one query per file, report progress, stop cleanly on SIGTERM and Ctrl-C."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Sequence
from types import FrameType

from paimon_table.errors import SinkUnavailable, TidemarkError
from pipelines.config import PipelineConfig
from pipelines.progress import ProgressLine
from pipelines.query import PipelineQuery
from pipelines.session import jvm_has_ended, open_session

log = logging.getLogger(__name__)

POLL_S = 0.1
JVM_END_S = 1.0
"""How long to wait for the end of a JVM that an error may come from."""


def run_pipelines(configs: Sequence[PipelineConfig], once: bool) -> list[PipelineQuery]:
    """Run all pipelines in one Spark session until they are drained (``once``) or a signal asks to stop.

    Raises what ended a pipeline; the others finish their running batch first. A clean stop raises nothing.
    """
    stop = threading.Event()
    _install_signal_handlers(stop)
    spark = open_session(configs)
    _install_signal_handlers(stop)
    queries: list[PipelineQuery] = []
    try:
        for config in configs:
            queries.append(PipelineQuery(spark, config, once, ProgressLine(config.name)))
        while any(q.is_running for q in queries):
            if stop.is_set() or any(q.has_failed for q in queries):
                for query in queries:
                    query.request_stop()
            for query in queries:
                if query.is_running:
                    query.poll()
            time.sleep(POLL_S)
        for query in queries:
            query.raise_failure()
        return queries
    except Exception as error:
        if jvm_has_ended(spark, 0.0 if isinstance(error, TidemarkError) else JVM_END_S):
            raise SinkUnavailable(
                "Spark's JVM has ended, perhaps for lack of memory (spark.driver.memory); start again, every pipeline"
                " goes on where it stopped"
            ) from error
        raise
    finally:
        if not jvm_has_ended(spark):
            spark.stop()


def _install_signal_handlers(stop: threading.Event) -> None:
    """SIGTERM and Ctrl-C ask for a clean stop; a second Ctrl-C ends the process at once.

    Called again after Spark has started, because pyspark puts its own Ctrl-C handler in place.
    """

    def handle(number: int, _frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        log.warning("stopping after the running batch (%s)", signal.Signals(number).name)
        stop.set()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
