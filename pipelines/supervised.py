"""One pipeline from its start to its end, over as many queries as transient failures make necessary.

If a query ends because Kafka or the storage does not answer, a new one begins from its checkpoint, in the same process
and session. That equals a restart: the identity of the checkpoint shows which batches are committed. Queries start on a
separate thread: checking a source that does not answer takes long, and a request to stop must not wait for it.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from pyspark.sql import SparkSession

from paimon_table.errors import ConfigError, TidemarkError, public_text
from paimon_table.patience import Patience
from paimon_table.storage.outages import storage_failure
from pipelines.batch.batch_report import BatchObserver, BatchReport
from pipelines.catchup.shown_standing import Standing, TableStanding
from pipelines.catchup.side_work import COMMANDS
from pipelines.checkpoint.book import Cause
from pipelines.config.config import PipelineConfig
from pipelines.config.config_changes import changes_of
from pipelines.control.request_desk import Handler
from pipelines.prepared import PreparedPipeline, prepared
from pipelines.query import PipelineQuery
from pipelines.report.heartbeat import duration_words
from pipelines.report.run_log import in_pipeline, naming
from pipelines.tables.table_failure import TableContinued
from pipelines.trouble import Trouble, may_pass
from pipelines.views.pipeline_state import PipelineState
from pipelines.views.table_counts import OutOfStream
from pipelines.views.table_views import EventKind, Phase
from sources.loss import Losses
from sources.positions import Place
from sources.reader import SourceReader
from sources.wording import sentences

log = logging.getLogger(__name__)

_FIRST_WAIT_S = 1.0

CALM_S = 20.0
"""After a query has run this long without a batch, or has finished a batch, earlier failures no longer count."""

LAST_BEGIN_S = 10.0
"""How long a stop waits for a starting query without an obstacle."""

Tell: TypeAlias = Callable[[bool, str], None]
"""Gets the outcome for a changed file: the changes, or the reason against it."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A version of the pipeline's file, and what differs."""

    config: PipelineConfig
    text: str
    tell: Tell


Begin = Callable[[PreparedPipeline], PipelineQuery]


class SupervisedPipeline(BatchObserver):
    """Polled by the main thread. ``observers`` observe the batches of all its queries."""

    def __init__(
        self,
        spark: SparkSession,
        config: PipelineConfig,
        pipeline: PreparedPipeline | None,
        once: bool,
        observers: Sequence[BatchObserver],
        seen: PipelineState,
        now: Callable[[], float] = time.monotonic,
        handlers: Mapping[str, Handler] | None = None,
    ) -> None:
        """``pipeline`` was prepared before Spark started; it belongs to the first query.

        ``handlers`` take the requests that are not for a query.
        """
        self.config = config
        self.query: PipelineQuery | None = None
        """The newest one that was begun."""
        self.failure: Exception | None = None
        """The error that ended the pipeline."""
        self._once = once
        self._begin: Begin = lambda found: PipelineQuery(spark, found, once, (*observers, seen, self), handlers, seen)
        self._look: Callable[[PipelineConfig], PreparedPipeline] = prepared
        self._pipeline = pipeline
        self._seen = seen
        self._now = now
        self._stop_s: float | None = None
        self._trouble: Trouble | None = None
        self._has_ended_batch = False
        """Whether the running query has completed a batch."""
        self.losses = Losses()
        """Records that were lost before they were read."""
        self._reader: SourceReader | None = None
        self.waited_s = 0.0
        """How many seconds it has waited for transient failures to end."""
        self._begun_s = 0.0
        self._begun: PipelineQuery | Exception | None = None
        self._beginner: threading.Thread | None = None
        self._is_running = False
        self._wanted: _Wanted | None = None
        """The configuration to continue with when the running query has ended."""
        self._replaced: _Wanted | None = None
        """The file that the pipeline returns to if it cannot start with the changed one."""
        self._is_back = False
        self._standings: Mapping[str, TableStanding] = {}
        seen.commands = COMMANDS

    def start(self) -> None:
        """Start a query on a separate thread."""
        self._begun_s = self._now()
        self._beginner = threading.Thread(target=self._try, name=f"begin-{self.config.name}", daemon=True)
        self._beginner.start()

    @property
    def _patience(self) -> Patience:
        retry = self.config.retry
        is_short = self._once or self.config.trigger.available_now
        max_wait_s = retry.max_wait.total_seconds()
        return Patience(_FIRST_WAIT_S, max_wait_s, max_elapsed_s=retry.max_elapsed_s(is_short))

    @property
    def is_starting(self) -> bool:
        """Whether its first query is starting, without an obstacle so far."""
        return self._beginner is not None and self._trouble is None and not self._stopping

    @property
    def has_query(self) -> bool:
        """Whether a query runs, or has ended and was not examined yet."""
        return self._is_running

    @property
    def is_alive(self) -> bool:
        """Whether there is something to wait for: a query, or the end of a failure."""
        if self._is_running:
            return True
        if self._stop_s is None:
            return self._beginner is not None or self._trouble is not None or self._wanted is not None
        is_in_time = self._now() - self._stop_s < LAST_BEGIN_S
        return self._beginner is not None and self._trouble is None and is_in_time

    @property
    def _stopping(self) -> bool:
        return self._stop_s is not None

    def request_stop(self) -> None:
        """Let the running batch finish; start nothing new."""
        if self._stop_s is None:
            self._stop_s = self._now()
            self._seen.enter(Phase.STOPPING)
        if self.query is not None:
            self.query.request_stop()

    def reload(self, config: PipelineConfig, tell: Tell) -> None:
        """Continue with another version of the file from the next batch on; ``tell`` gets the result.

        Raises ConfigError for a change that is not possible; the pipeline then continues unchanged.
        """
        changes = changes_of(self.config, config)
        if self._wanted is not None or self._replaced is not None or self._stopping:
            raise ConfigError("the pipeline is being changed or stopped already; try again later")
        if changes.is_none:
            tell(True, str(changes))
            return
        log.info("%s: applies the changed file at the end of the batch: %s", self.config.name, changes)
        self._wanted = _Wanted(config, str(changes), tell)
        if self.query is not None and self._is_running:
            self.query.request_stop()

    def poll(self) -> None:
        """Do the work that is due."""
        if self._beginner is not None:
            if not self._beginner.is_alive():
                self._take_begun()
        elif self._is_running:
            self._poll_query()
        elif self._wanted is not None and not self._stopping:
            self._take_over(self._wanted)
        elif self._trouble is not None and not self._stopping and self._now() >= self._trouble.next_s:
            self.start()

    @property
    def waits_for(self) -> str | None:
        """The obstacle and its duration, for a status line; None while the pipeline runs."""
        trouble = self._trouble
        if trouble is None or self._is_running:
            return None
        left_s = trouble.next_s - self._now()
        next_try = f"next try in {math.ceil(left_s)} s" if self._beginner is None and left_s > 0 else "trying again"
        return f"{self.config.name}: has been waiting for {duration_words(self._now() - trouble.began_s)}, {next_try}"

    @property
    def is_busy_beside(self) -> bool:
        """Whether a batch would have to wait for other work, if it came now."""
        return self._is_running and self.query is not None and self.query.is_in_turn

    @property
    def is_source_silent(self) -> bool:
        """Whether the source does not answer at present."""
        return self._reader is not None and self._reader.silent_s is not None

    @property
    def unfinished(self) -> Sequence[str]:
        """Incomplete files of the source; see ``SourceReader``."""
        return () if self._reader is None else self._reader.unfinished

    @property
    def why_nothing(self) -> str | None:
        """Why there was nothing to read; see ``SourceReader``."""
        return None if self._reader is None else self._reader.why_nothing

    def end(self, report: BatchReport) -> None:
        """See ``BatchObserver``: work that succeeds ends all failures."""
        self._has_ended_batch = True

    def _try(self) -> None:
        try:
            with in_pipeline(self.config.name), naming(self.config.name):
                found, self._pipeline = self._pipeline or self._look(self.config), None
                found.reader.losses = self.losses
                self._reader = found.reader
                self._begun = self._begin(found)
                self._seen.look_at(found.reader, self._begun.open_tables)
                self._seen.config, self._seen.commands = found.config, COMMANDS
        except Exception as error:
            self._begun = error

    def _take_begun(self) -> None:
        self._beginner = None
        match self._begun:
            case PipelineQuery() as query:
                self.query, self._is_running, self._begun_s = query, True, self._now()
                self._has_ended_batch = False
                if self._stopping:
                    query.request_stop()
                if self._trouble is None:
                    self._seen.enter(Phase.RUNNING)
                if self._replaced is not None and not self._is_back:
                    self._tell_taken(self._replaced)
                self._replaced, self._is_back = None, False
            case Exception() as error if self._replaced is not None and not self._is_back and not may_pass(error):
                self._go_back(self._replaced, error)
            case Exception() as error:
                self._failed(error, self._begun_s)

    def _poll_query(self) -> None:
        query = self.query
        assert query is not None
        if query.has_failed:
            query.request_stop()
        self._show(query.standings())
        self._seen.put_beside(query.beside())
        is_calm = self._now() - self._begun_s > CALM_S and not query.is_in_turn
        if self._has_ended_batch or (is_calm and not query.has_failed):
            self._end_trouble()
        if query.is_running:
            query.poll()
            return
        self._is_running = False
        silent_s = (self._reader.silent_s if self._reader is not None else None) or 0.0
        query.close()
        try:
            query.raise_failure()
            self._end_trouble()
        except TableContinued:
            if not self._stopping:
                self.start()
        except Exception as error:
            self._failed(error, self._now(), silent_s)

    def _show(self, standings: Mapping[str, TableStanding]) -> None:
        """Show which tables are outside the stream."""
        for name, standing in standings.items():
            if standing != self._standings.get(name):
                pause = standing.pause
                out = OutOfStream(
                    pause.reason,
                    pause.public_reason,
                    pause.since_ms / 1000,
                    self._offsets(pause.position),
                    pause.topics,
                    pause.cause is Cause.BAD_RECORDS,
                )
                self._seen.put_table(name, standing.state, out)
        for name in self._standings.keys() - standings.keys():
            self._seen.put_table(name, Standing.RUNNING)
        self._standings = standings

    def _offsets(self, position: str | None) -> Mapping[Place, int] | None:
        """A position of the source as offsets, if it consists of offsets."""
        return None if position is None or self._reader is None else self._reader.slices().offsets(position)

    def _take_over(self, wanted: _Wanted) -> None:
        self._replaced = replace(wanted, config=self.config)
        self.config, self._wanted, self._pipeline = wanted.config, None, None
        self.start()

    def _go_back(self, before: _Wanted, error: Exception) -> None:
        """Start with the old file, because the changed one cannot start."""
        text = f"Tidemark cannot apply the changed file, and the pipeline continues unchanged: {error}"
        log.warning("%s: %s", self.config.name, text, extra=_event("reload-refused"))
        self._seen.note(EventKind.RELOAD_REFUSED, str(error), public_reason=public_text(error))
        before.tell(False, text)
        self.config, self._pipeline, self._is_back = before.config, None, True
        self.start()

    def _tell_taken(self, replaced: _Wanted) -> None:
        log.info("%s: continues with the changed file: %s", self.config.name, replaced.text, extra=_event("reloaded"))
        self._seen.note(EventKind.RELOADED, replaced.text)
        replaced.tell(True, replaced.text)

    def _failed(self, raised: Exception, since_s: float, silent_s: float = 0.0) -> None:
        error = storage_failure(raised) if isinstance(raised, OSError) else raised
        if self._stopping and may_pass(error):
            log.warning("%s: stopped while it waited: %s", self.config.name, error)
            return
        told = str(error), public_text(error)
        before = self._trouble or Trouble(*told, since_s, silent_s=silent_s)
        after = before.failed_again(*told, self._now(), self._patience) if may_pass(error) else None
        if after is None:
            if self._wanted is not None:
                self._wanted.tell(False, f"the pipeline ended before it applied the changed file: {error}")
            self.failure = self._final(error, before)
            self._seen.enter(Phase.FAILED, str(self.failure), public_text(self.failure))
            return
        self._trouble = after
        self._tell(after)

    def _final(self, error: Exception, trouble: Trouble) -> Exception:
        """The error that ends the pipeline, with the time spent on retries."""
        if not isinstance(error, TidemarkError) or not may_pass(error):
            return error
        waited = duration_words(self._now() - trouble.since_s)
        tries = f"; tried again for {waited} (retry.max_elapsed)" if trouble.tries else ""
        return error.told(f"{error}{tries}; start again when it is back: the pipeline continues where it stopped")

    def _tell(self, trouble: Trouble) -> None:
        self._seen.retried("outage")
        self._seen.enter(Phase.WAITING, trouble.what, trouble.public_what)
        left_s = trouble.next_s - self._now()
        since = datetime.now() - timedelta(seconds=self._now() - trouble.began_s)
        log.warning(
            "%s: %s, next try in %.0f s (number %d); the pipeline ends if it lasts %s",
            self.config.name,
            sentences(
                trouble.what.removeprefix(f"pipeline {self.config.name}: "),
                f"Waiting since {since.strftime('%H:%M:%S')}",
            ),
            left_s,
            trouble.tries,
            duration_words(self._patience.max_elapsed_s),
            extra={
                "event": "waiting",
                "pipeline": self.config.name,
                "fields": {"tries": trouble.tries, "next_try_s": round(left_s, 1), "reason": trouble.what},
            },
        )

    def _end_trouble(self) -> None:
        """Log once that the trouble is over: a query that has just started may fail for the same reason."""
        trouble, self._trouble = self._trouble, None
        if trouble is None or self._stopping:
            return
        self._seen.enter(Phase.RUNNING)
        waited_s = self._begun_s - trouble.began_s
        self.waited_s += waited_s
        log.warning(
            "%s: continues after %s of waiting, at try %d",
            self.config.name,
            duration_words(waited_s),
            trouble.tries,
            extra={"event": "going-on", "pipeline": self.config.name, "fields": {"waited_s": round(waited_s, 1)}},
        )


def _event(name: str) -> dict[str, object]:
    return {"event": name}
