"""The messages of a run on stderr: each line has date, time and, where it belongs to one, the pipeline.

On a terminal a line below the messages shows the current work.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import os
import time
from collections.abc import Iterator, Sequence
from typing import Self

from rich.console import Console
from rich.status import Status
from rich.text import Text

from paimon_table.errors import TidemarkError
from pipelines.report.json_log import JsonFormatter, JsonHandler, LogFormat
from pipelines.report.safe_text import shown

PACKAGES = ("pipelines", "sinks", "sources", "paimon_table")
LEVEL_VARIABLE = "TIDEMARK_LOG_LEVEL"
_TIME_FORMAT = "%Y-%m-%d %H:%M:%S"
_pipeline: contextvars.ContextVar[str] = contextvars.ContextVar("pipeline", default="")


@contextlib.contextmanager
def in_pipeline(name: str) -> Iterator[None]:
    """Messages of this thread, and of work that it hands over with its context, belong to a pipeline."""
    token = _pipeline.set(name)
    try:
        yield
    finally:
        _pipeline.reset(token)


@contextlib.contextmanager
def naming(pipeline: str) -> Iterator[None]:
    """Errors for users that leave this block begin with the name of the pipeline, unless they contain it."""
    try:
        yield
    except TidemarkError as error:
        if f"pipeline {pipeline}" not in str(error):
            error.args = (f"pipeline {pipeline}: {error}",)
        raise


class LineFormatter(logging.Formatter):
    """``2026-03-01 12:00:00 shop: creating table lake.orders``; always one line per message.

    Names and values in it come from topics: none of them can end the line, move the cursor or change the direction of
    text.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(message)s", _TIME_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        name = _pipeline.get()
        text = record.message.removeprefix(f"pipeline {name}: ")
        record.message = shown(f"{name}: {text}" if name and not text.startswith(f"{name}: ") else record.message)
        return super().formatMessage(record)


def dated(text: str) -> str:
    """A text with date and time in front, as the messages of a run have them."""
    return f"{time.strftime(_TIME_FORMAT)} {text}"


class ConsoleHandler(logging.Handler):
    """Prints above the line with the current work."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self.setFormatter(LineFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        style = "yellow" if record.levelno >= logging.WARNING else "dim" if record.levelno < logging.INFO else ""
        try:
            self._console.print(Text(self.format(record), style=style), soft_wrap=True)
        except Exception:
            self.handleError(record)


def log_to_stderr(
    is_verbose: bool = False, form: LogFormat = LogFormat.TEXT, names: Sequence[str] = ()
) -> Console | None:
    """Send the messages of our packages to stderr; gives the console that prints them, None for machines.

    Their level is TIDEMARK_LOG_LEVEL, DEBUG with ``is_verbose``, else INFO. ``names`` are the pipelines of the run.
    """
    console = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    handler = JsonHandler(JsonFormatter(_pipeline.get, names)) if form is LogFormat.JSON else ConsoleHandler(console)
    level = "DEBUG" if is_verbose else os.environ.get(LEVEL_VARIABLE, "INFO").upper()
    for package in PACKAGES:
        logger = logging.getLogger(package)
        logger.handlers[:] = [handler]
        logger.setLevel(level)
        logger.propagate = False
    # Without a handler, py4j's errors would be printed with their frames; they are raised as exceptions anyway.
    logging.getLogger().addHandler(logging.NullHandler())
    return console if form is LogFormat.TEXT else None


class Activity:
    """The current work, on the last line of a terminal; nothing if the output is not a terminal."""

    def __init__(self, console: Console | None) -> None:
        is_shown = console is not None and console.is_terminal
        self._status = Status("", console=console) if is_shown else None

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, text: str) -> None:
        if self._status is not None:
            self._status.update(Text(text))
