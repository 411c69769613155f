"""Run pipelines: start Spark and one query per file, report progress, stop cleanly on SIGTERM and Ctrl-C."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType

from pyspark.sql import SparkSession
from rich.console import Console

from paimon_table import Table
from paimon_table.errors import SinkUnavailable, TidemarkError
from pipelines.checkpoint.lock import held_checkpoints
from pipelines.config.config import PipelineConfig
from pipelines.live.run_state import RunState
from pipelines.live.views import Phase
from pipelines.look.looking import looking
from pipelines.prepared import prepared
from pipelines.query import PipelineQuery
from pipelines.report.progress import ProgressLine
from pipelines.report.run_log import Activity, in_pipeline, naming
from pipelines.report.run_totals import RunTotals, Totals
from pipelines.spark.jvm_output import JVM_OUTPUT
from pipelines.spark.session import jvm_has_ended, open_session
from pipelines.spark.warm_workers import warm_workers
from pipelines.version import version
from sources.loss import Losses

log = logging.getLogger(__name__)

POLL_S = 0.1
JVM_END_S = 1.0
"""How long to wait for the end of a JVM that an error may come from."""


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """What one pipeline of a run has done."""

    config: PipelineConfig
    written_tables: Callable[[], Mapping[str, Table]]
    """The tables that the pipeline has written in this run or before, by identifier; looks at the storage."""
    totals: Totals
    losses: Losses
    """Records that were gone before they were read."""


def run_pipelines(configs: Sequence[PipelineConfig], once: bool, console: Console | None = None) -> list[FinishedRun]:
    """Run all pipelines in one Spark session until they are drained (``once``) or a signal asks to stop.

    Gives those that were started.
    If ``console`` is a terminal, its last line shows what is going on. Raises what ended a pipeline; the others finish
    their running batch first. A clean stop raises nothing.
    """
    stop = threading.Event()
    _install_signal_handlers(stop, "as soon as Spark has started")
    state = RunState(configs)
    with held_checkpoints(configs), looking(configs, state), Activity(console) as activity:
        return _run(configs, once, stop, activity, state)


def _run(
    configs: Sequence[PipelineConfig], once: bool, stop: threading.Event, activity: Activity, state: RunState
) -> list[FinishedRun]:
    pipelines = []
    for config in configs:
        with naming(config.name):
            pipelines.append(prepared(config))
    try:
        spark = _started(configs, once, activity)
    except SinkUnavailable:
        if stop.is_set():
            return []
        raise
    state.spark_started(spark.version)
    _install_signal_handlers(stop, "after the running batch")
    queries: list[PipelineQuery] = []
    lines = [ProgressLine(config.name, config.quarantine) for config in configs]
    sums = [RunTotals() for _ in configs]
    failure: TidemarkError | None = None
    try:
        while (len(queries) < len(configs) and failure is None) or any(q.is_running for q in queries):
            if stop.is_set() or failure is not None or any(q.has_failed for q in queries):
                state.enter(Phase.STOPPING)
                for query in queries:
                    query.request_stop()
                if not any(q.is_running for q in queries):
                    break
            elif len(queries) < len(configs):
                number = len(queries)
                config = configs[number]
                activity.show(f"{config.name}: looking at source, checkpoint and tables")
                try:
                    with in_pipeline(config.name), naming(config.name):
                        seen = state.pipelines[config.name]
                        observers = (sums[number], lines[number], seen)
                        queries.append(PipelineQuery(spark, pipelines[number], once, observers))
                        seen.look_at(pipelines[number].reader, queries[-1].open_tables)
                        seen.enter(Phase.RUNNING)
                except TidemarkError as error:
                    failure = error
                    state.pipelines[config.name].enter(Phase.FAILED, str(error))
            for query in queries:
                if query.is_running:
                    query.poll()
            state.tick()
            activity.show(" | ".join(line.tick() for q, line in zip(queries, lines, strict=False) if q.is_running))
            time.sleep(POLL_S)
        for query in queries:
            query.raise_failure()
        if failure is not None:
            raise failure
        return _finished(configs, queries, sums)
    except Exception as error:
        if jvm_has_ended(spark, 0.0 if isinstance(error, TidemarkError) else JVM_END_S):
            if stop.is_set():
                log.warning("Spark's JVM has ended too; a batch that was running is done again at the next start")
                return _finished(configs, queries, sums)
            raise SinkUnavailable(
                "Spark's JVM has ended, perhaps for lack of memory (spark.driver.memory); start again, every pipeline"
                f" goes on where it stopped{JVM_OUTPUT.troubles()}"
            ) from error
        raise
    finally:
        if not jvm_has_ended(spark):
            spark.stop()


def _finished(
    configs: Sequence[PipelineConfig], queries: Sequence[PipelineQuery], sums: Sequence[RunTotals]
) -> list[FinishedRun]:
    started = zip(configs, queries, sums, strict=False)
    return [FinishedRun(config, query.written_tables, run.totals, query.losses) for config, query, run in started]


def _started(configs: Sequence[PipelineConfig], once: bool, activity: Activity) -> SparkSession:
    log.info("tidemark %s: %s", version(), ", ".join(f"pipeline {config.name}" for config in configs))
    log.info("starting Spark ...")
    activity.show("starting Spark")
    began_s = time.monotonic()
    is_short = all((once or c.trigger.available_now) and c.source.files is not None for c in configs)
    spark = open_session(configs, is_short)
    warm_workers(spark)
    log.info("Spark %s on %s started in %.1f s", spark.version, spark.sparkContext.master, time.monotonic() - began_s)
    return spark


def _install_signal_handlers(stop: threading.Event, when: str) -> None:
    """SIGTERM and Ctrl-C ask for a clean stop, said to come ``when``; a second Ctrl-C ends the process at once.

    Called again after Spark has started, because pyspark puts its own Ctrl-C handler in place.
    """

    def handle(number: int, _frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        log.warning("stopping %s (%s)", when, signal.Signals(number).name)
        stop.set()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
