"""The actions of the page's buttons: requests to the running pipeline, and separate compactions."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from paimon_table.errors import ConfigError, TidemarkError
from pipelines.config.config import PipelineConfig
from pipelines.control.requests import Requests
from pipelines.jobs.table_jobs import compact_fully
from pipelines.quarantine.retry import retry_quietly
from pipelines.quarantine.selection import Selection
from pipelines.views.run_state import RunState

COMPACT = "compact"
RETRY = "retry"
"""Retries bad records: the records of one table and kind of reason, or all."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The progress of a requested action; ``state`` is a word of ``control.requests.State``."""

    state: str
    text: str


class Actions:
    """Carries out an action by a name from ``of``; refuses all others."""

    def __init__(self, configs: Mapping[str, PipelineConfig], state: RunState) -> None:
        self._configs = configs
        self._state = state
        self._numbers = itertools.count()
        self._jobs: dict[str, Outcome] = {}
        self._requests: dict[str, tuple[Requests, str]] = {}
        self._turn = threading.Lock()

    def of(self, pipeline: str) -> tuple[str, ...]:
        """The actions for a table of this pipeline."""
        return (*self._state.pipelines[pipeline].commands, COMPACT)

    def config(self, pipeline: str) -> PipelineConfig:
        """The work that the pipeline runs now."""
        return self._state.pipelines[pipeline].config or self._configs[pipeline]

    def begin(self, pipeline: str, table: str, action: str) -> str:
        """Begin an action; returns a number for ``outcome``. The caller checks the names."""
        if action == COMPACT:
            opened = self._state.pipelines[pipeline].open_table(table)
            if opened is None:
                raise ConfigError(f"table {table} is not open yet, because no batch has written to it since the start")
            found = opened.table
            return self._start(lambda: compact_fully(found), f"compaction of {table}")
        requests = Requests.of(self.config(pipeline))
        request = requests.leave(action, {"table": table, "reason": "requested on the web page"})
        number = f"request-{next(self._numbers)}"
        self._requests[number] = (requests, request.id)
        return number

    def begin_retry(self, pipeline: str, table: str | None, reason: str | None) -> str:
        """Begin to retry bad records of the pipeline, as ``begin`` does."""
        config, number = self.config(pipeline), f"job-{next(self._numbers)}"
        selection = Selection(table, reason)

        def tell(text: str) -> None:
            self._jobs[number] = Outcome("working", text)

        def retry() -> str:
            try:
                return retry_quietly(config, selection, tell)
            finally:
                self._state.pipelines[pipeline].has_new_bad_records.set()

        return self._start(retry, "the retry", number)

    def outcome(self, number: str) -> Outcome:
        """The progress of an action."""
        if number in self._jobs:
            return self._jobs[number]
        if number not in self._requests:
            return Outcome("failed", "the process has no request with this number")
        requests, request_id = self._requests[number]
        answer = requests.answer_to(request_id)
        if answer is None:
            return Outcome("working", "waiting for the running batch to end")
        return Outcome(answer.state.value, answer.text)

    def _start(self, work: Callable[[], str], what: str, number: str | None = None) -> str:
        number = number or f"job-{next(self._numbers)}"
        self._jobs[number] = Outcome("working", f"{what} runs")
        threading.Thread(target=self._run, args=(number, work), name="tidemark-page-job", daemon=True).start()
        return number

    def _run(self, number: str, work: Callable[[], str]) -> None:
        """One job at a time, because each takes up to a gibibyte."""
        with self._turn:
            try:
                self._jobs[number] = Outcome("done", work())
            except (TidemarkError, OSError) as error:
                self._jobs[number] = Outcome("failed", str(error))
            except Exception as error:
                self._jobs[number] = Outcome("failed", f"unexpected {type(error).__name__}: {error}")
