"""A progress bar for jobs on a terminal, and how Ctrl-C ends a job: between two steps, so that it can clean up."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from paimon_table import WriterEnvironment
from paimon_table.maintenance.job import Job, Unwatched
from paimon_table.storage.private_directory import process_directory

CHUNK_BYTES = 64 << 20
"""Bytes of rows that are merged at once; a job takes about ten times as much memory."""

_SILENCE_S = 30.0
"""Without a terminal, a line reports the progress at this interval."""


class BarProgress:
    """Implements ``Progress`` of jobs; raises KeyboardInterrupt on request."""

    def __init__(self, console: Console, unit: str = "rows", line: Callable[[str], None] | None = None) -> None:
        """``unit``: the default unit of steps that name none; ``line`` prints in place of ``console``."""
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
            disable=line is not None or not console.is_terminal,
        )
        self._line = line or partial(console.print, highlight=False)
        self._has_bar = line is None and console.is_terminal
        self._unit = self._usual_unit = unit
        self._task: TaskID | None = None
        self._step = ""
        self._done = self._total = 0
        self._told_s = time.monotonic()
        self._is_interrupted = False

    def begin(self, step: str, count: int, unit: str | None = None) -> None:
        self._step, self._unit, self._done, self._total = step, unit or self._usual_unit, 0, count
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(step, total=count, unit=self._unit)

    def advance(self, count: int) -> None:
        if self._is_interrupted:
            raise KeyboardInterrupt
        self._done += count
        if self._task is not None:
            self._bars.advance(self._task, count)
        if not self._has_bar and time.monotonic() - self._told_s > _SILENCE_S:
            self._told_s = time.monotonic()
            self._line(f"{self._step}: {self._done:,} of {self._total:,} {self._unit}")

    def rest(self) -> None:
        """Between two jobs: no bar. Raises KeyboardInterrupt on request."""
        if self._is_interrupted:
            raise KeyboardInterrupt
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None

    def interrupt(self, number: int, _frame: FrameType | None) -> None:
        """The first signal ends the job at its next step; a second one at once."""
        if self._is_interrupted:
            signal.signal(number, signal.default_int_handler)
            raise KeyboardInterrupt
        self._is_interrupted = True

    @contextmanager
    def shown(self) -> Iterator[None]:
        with self._bars:
            yield


@contextmanager
def watched(unit: str = "rows", line: Callable[[str], None] | None = None) -> Iterator[BarProgress]:
    """Inside this block a job has a progress bar on stderr, and SIGINT and SIGTERM end it cleanly."""
    progress = BarProgress(Console(stderr=True), unit, line)
    before = {number: signal.signal(number, progress.interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with progress.shown():
            yield progress
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def new_job(progress: BarProgress | None = None) -> Job:
    """A job of this process."""
    environment = WriterEnvironment(process_directory(tempfile.gettempdir()), chunk_bytes=CHUNK_BYTES)
    return Job(environment, progress or Unwatched())
