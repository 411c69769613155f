"""The progress of a replay, for people: a bar on a terminal, or a line at intervals; with a rate and an estimate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bars

from pipelines.catchup.reading import Step
from pipelines.report.heartbeat import duration_words

LINE_S = 10.0
"""Without a terminal a line is printed at this interval."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a replay after a step."""

    step: Step
    record_count: int
    failed_count: int
    records_left: int | None

    @staticmethod
    def of(details: dict[str, Any]) -> Progress:
        return Progress(Step(details["step"]), *(details[n] for n in ("record_count", "failed_count", "records_left")))


class ReplayProgress:
    """Shows the steps of one replay."""

    def __init__(
        self, table: str, console: Console, clock: Callable[[], float] = time.monotonic, doing: str = "replaying"
    ) -> None:
        self._console = console
        self._doing = f"{doing} {table}"
        self._clock = clock
        self._first: tuple[float, int] | None = None
        self._printed_s = clock()
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[words]}"))
        self.bars = Bars(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task: TaskID = self.bars.add_task(self._doing, total=None, words="")

    def show(self, progress: Progress) -> None:
        """Take the result of a step."""
        now_s = self._clock()
        words = self._words(progress, now_s)
        self._first = self._first or (now_s, progress.record_count)
        left = progress.records_left
        total = None if left is None else progress.record_count + left
        self.bars.update(self._task, completed=progress.record_count, total=total, words=words)
        if not self._console.is_terminal and now_s - self._printed_s >= LINE_S:
            self._printed_s = now_s
            self._console.print(f"{self._doing}: {words}", highlight=False)

    def _words(self, progress: Progress, now_s: float) -> str:
        """The rate counts from the first step on, which has waited for the pipeline and for Spark."""
        count, left = progress.record_count, progress.records_left
        total = "" if left is None else f" of {count + left:,}"
        began_s, before = self._first or (now_s, count)
        elapsed_s, done = now_s - began_s, count - before
        if not done or elapsed_s <= 0:
            return f"{count:,}{total} records"
        rate = done / elapsed_s
        rest = "" if left is None else f", about {duration_words(left / rate)} left"
        return f"{count:,}{total} records, {rate:,.0f}/s{rest}"


@contextmanager
def shown_progress(table: str, doing: str = "replaying") -> Iterator[ReplayProgress]:
    """On stderr during the block."""
    progress = ReplayProgress(table, Console(stderr=True), doing=doing)
    with progress.bars:
        yield progress
