"""Run pipelines: start Spark and one query per file, report progress, stop cleanly on SIGTERM and Ctrl-C."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession
from rich.console import Console

from paimon_table.errors import SinkUnavailable, TidemarkError
from pipelines.checkpoint.lock import held_checkpoints, run_comes_first
from pipelines.config.config import PipelineConfig
from pipelines.early_signals import was_hung_up
from pipelines.http.endpoints import endpoints
from pipelines.prepared import PreparedPipeline, prepared
from pipelines.reloading import Reloading
from pipelines.report.heartbeat import duration_words
from pipelines.report.progress import ProgressLine
from pipelines.report.run_log import Activity, naming
from pipelines.report.run_summary import FinishedRun
from pipelines.report.run_totals import RunTotals
from pipelines.spark.jvm_output import JVM_OUTPUT
from pipelines.spark.kafka_reading import say_reader
from pipelines.spark.session import jvm_has_ended, open_session
from pipelines.spark.warm_workers import warm_workers
from pipelines.supervised import SupervisedPipeline
from pipelines.trouble import may_pass
from pipelines.version import version
from pipelines.views.run_state import RunState

log = logging.getLogger(__name__)

POLL_S = 0.1
STILL_S = 30.0
JVM_END_S = 1.0
"""How long to wait for the end of a JVM that may have caused an error."""


@dataclass(frozen=True, slots=True)
class EndedRun:
    """The result of a run of several pipelines."""

    finished: Sequence[FinishedRun]
    """The runs that were started and did not fail."""
    failure: Exception | None = None
    """The error of the first pipeline that failed, which ended the run."""
    was_stopped: bool = False
    """Whether a signal requested the stop, so that unread records may be left."""

    @property
    def spoils_others(self) -> bool:
        """Whether pipelines without a fault have ended: then the request as a whole was valid."""
        return self.failure is not None and bool(self.finished)


def run_pipelines(
    configs: Sequence[PipelineConfig], once: bool, console: Console | None = None, files: Sequence[Path] = ()
) -> EndedRun:
    """Run all pipelines in one Spark session until they are drained (``once``) or a signal asks to stop.

    ``files`` are the pipelines' files, read again on SIGHUP. If ``console`` is a terminal, its last line shows the
    current activity. When a pipeline fails, the others finish their running batch first. Raises errors that concern
    all pipelines.
    """
    stop, reloading = threading.Event(), Reloading(files, [config.name for config in configs], once)
    _take_hangups(reloading.ask_all)
    _install_signal_handlers(stop, "as soon as Spark has started")
    with ExitStack() as held:
        with run_comes_first(configs, stop.is_set) as is_free:
            if is_free:
                held.enter_context(held_checkpoints(configs))
        ended = _looked_at(configs, once, stop, console, reloading) if is_free else EndedRun(())
    if stop.is_set() and ended.failure is None:
        log.info("stopped; the next start continues from here", extra={"event": "stopped"})
    return replace(ended, was_stopped=stop.is_set())


def _looked_at(
    configs: Sequence[PipelineConfig],
    once: bool,
    stop: threading.Event,
    console: Console | None,
    reloading: Reloading,
) -> EndedRun:
    state = RunState(configs)
    with endpoints(configs, state), Activity(console) as activity:
        return _run(configs, once, stop, activity, state, reloading)


def _run(
    configs: Sequence[PipelineConfig],
    once: bool,
    stop: threading.Event,
    activity: Activity,
    state: RunState,
    reloading: Reloading,
) -> EndedRun:
    pipelines = [_prepared(config) for config in configs]
    try:
        spark = _started(configs, activity)
    except SinkUnavailable:
        if stop.is_set():
            return EndedRun(())
        raise
    state.spark_started(spark.version)
    _install_signal_handlers(stop, "after the running batch")
    lines = [ProgressLine(config.name, config.quarantine) for config in configs]
    sums = [RunTotals() for _ in configs]
    runs = [
        SupervisedPipeline(
            spark,
            config,
            found,
            once,
            (total, line),
            state.pipelines[config.name],
            handlers=reloading.handlers(config.name),
        )
        for config, found, total, line in zip(configs, pipelines, sums, lines, strict=True)
    ]
    waiting = list(runs)
    try:
        while waiting or any(run.is_alive for run in runs):
            if stop.is_set() or any(run.failure is not None for run in runs):
                _tell_not_started(waiting)
                waiting.clear()
                for run in runs:
                    run.request_stop()
            elif waiting and not any(run.is_starting for run in runs):
                activity.show(f"{waiting[0].config.name}: looking at source, checkpoint and tables")
                waiting.pop(0).start()
            elif not waiting:
                reloading.work(runs)
            for run in runs:
                run.poll()
            if not any(run.has_query for run in runs) and jvm_has_ended(spark):
                raise _JvmEnded  # no request, or only one that a transient failure may explain
            state.tick()
            shown = [
                run.waits_for or line.tick(run.is_busy_beside, run.is_source_silent)
                for run, line in zip(runs, lines, strict=True)
                if run.is_alive
            ]
            if not any(run.is_starting for run in runs):
                activity.show(" | ".join(shown))
            time.sleep(POLL_S)
        ended = _ended(runs, sums)
        if once and ended.failure is None and not stop.is_set():
            _tell_unmatched(runs)
        if ended.failure is not None and (not isinstance(ended.failure, TidemarkError) or jvm_has_ended(spark)):
            raise ended.failure  # it concerns them all
        return ended
    except Exception as error:
        if jvm_has_ended(spark, 0.0 if isinstance(error, TidemarkError) else JVM_END_S):
            if stop.is_set():
                log.warning("Spark's JVM has ended too; the next start repeats a batch that was running")
                return EndedRun(_ended(runs, sums).finished)
            raise SinkUnavailable(
                "Spark's JVM has ended, possibly because it ran out of memory (spark.driver.memory); start "
                f"again: every pipeline continues where it stopped{JVM_OUTPUT.troubles()}"
            ) from error
        if isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError):
            raise SinkUnavailable(
                f"Spark's JVM does not answer correctly ({str(error).partition(chr(10))[0]}), possibly because "
                "it ran out of memory (spark.driver.memory); start again: every pipeline continues where it stopped"
                f"{JVM_OUTPUT.troubles()}"
            ) from error
        raise
    finally:
        if not jvm_has_ended(spark):
            spark.stop()


def _tell_unmatched(runs: Sequence[SupervisedPipeline]) -> None:
    """Warn of names in the files that the sources do not have; a failure here does not matter to the finished run."""
    for run in runs:
        with suppress(TidemarkError, OSError):
            for text in () if run.query is None else run.query.unmatched():
                log.warning("%s: %s", run.config.name, text)


class _JvmEnded(Exception):
    """Spark's JVM has ended, and no query has reported it."""


def _prepared(config: PipelineConfig) -> PreparedPipeline | None:
    """The check that needs no Spark; None if it is not possible now."""
    try:
        with naming(config.name):
            return prepared(config)
    except (TidemarkError, OSError) as error:
        if not may_pass(error):
            raise
        log.warning("%s: %s; Tidemark checks it again after Spark has started", config.name, error)
        return None


def _ended(runs: Sequence[SupervisedPipeline], sums: Sequence[RunTotals]) -> EndedRun:
    failure = next((run.failure for run in runs if run.failure is not None), None)
    finished = [
        FinishedRun(
            run.config,
            run.query.written_tables,
            total.totals,
            run.losses,
            run.query.standings(),
            run.waited_s,
            (*run.unfinished, *run.query.unreadable_topics),
            run.why_nothing,
        )
        for run, total in zip(runs, sums, strict=True)
        if run.query is not None and run.failure is None
    ]
    return EndedRun(finished, failure)


def _started(configs: Sequence[PipelineConfig], activity: Activity) -> SparkSession:
    log.info("tidemark %s: %s", version(), ", ".join(f"pipeline {config.name}" for config in configs))
    log.info("starting Spark ...")
    activity.show("starting Spark")
    began_s = time.monotonic()
    for config in configs:
        say_reader(config)
    with _still("starting Spark"):
        spark = open_session(configs)
    warm_workers(spark)
    log.info("Spark %s on %s started in %.1f s", spark.version, spark.sparkContext.master, time.monotonic() - began_s)
    return spark


@contextmanager
def _still(doing: str) -> Iterator[None]:
    """Report at intervals that the block still runs: a busy machine takes minutes for it."""
    has_ended, began_s = threading.Event(), time.monotonic()

    def tell() -> None:
        while not has_ended.wait(STILL_S):
            log.info("still %s, for %s", doing, duration_words(time.monotonic() - began_s))

    threading.Thread(target=tell, name="still", daemon=True).start()
    try:
        yield
    finally:
        has_ended.set()


def _take_hangups(ask: Callable[[], None]) -> None:
    """SIGHUP requests the changed files, unless the process was started to ignore it (nohup)."""
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda _number, _frame: ask())
        if was_hung_up():
            ask()


def _tell_not_started(waiting: Sequence[SupervisedPipeline]) -> None:
    if waiting:
        names = ", ".join(run.config.name for run in waiting)
        log.warning("not started, because this run ends: %s; the next run continues from their positions", names)


def _install_signal_handlers(stop: threading.Event, when: str) -> None:
    """SIGTERM and Ctrl-C request a clean stop, announced for ``when``; a second Ctrl-C ends the process at once.

    Called again after Spark has started, because pyspark installs its own Ctrl-C handler.
    """

    def handle(number: int, _frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        log.warning("stopping %s (%s)", when, signal.Signals(number).name, extra={"event": "stopping"})
        stop.set()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
