"""The messages of a run for machines: one JSON object per line.

Every line has ``time`` (UTC), ``level``, ``event`` and ``message``. It has ``pipeline`` and ``table`` if it belongs to
one, and further fields of the event. Other messages have the event ``message``.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import IO, Any

EVENT, TABLE, PIPELINE, FIELDS = "event", "table", "pipeline", "fields"
"""The valid contents of ``extra`` in a log call."""

MESSAGE = "message"


class LogFormat(StrEnum):
    """For whom messages are."""

    TEXT = "text"
    JSON = "json"


class JsonFormatter(logging.Formatter):
    """``names`` are the pipelines of the run; ``current`` returns the pipeline of a message from this thread."""

    def __init__(self, current: Callable[[], str], names: Collection[str] = ()) -> None:
        super().__init__()
        self._current = current
        self.names = names

    def format(self, record: logging.LogRecord) -> str:
        found: Mapping[str, Any] = record.__dict__
        pipeline = found.get(PIPELINE) or self._current()
        text = record.getMessage()
        for name in (pipeline,) if pipeline else self.names:
            short = text.removeprefix("pipeline ").removeprefix(f"{name}: ")
            if len(short) < len(text.removeprefix("pipeline ")):
                pipeline, text = name, short
                break
        return line(
            record.levelname.lower(),
            found.get(EVENT, MESSAGE),
            text,
            pipeline or None,
            found.get(TABLE),
            found.get(FIELDS, {}),
            datetime.fromtimestamp(record.created, UTC),
        )


class JsonHandler(logging.Handler):
    """Prints a line for each message, at once."""

    def __init__(self, formatter: JsonFormatter, out: IO[str] | None = None) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._out = out or sys.stderr

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._out.write(self.format(record) + "\n")
            self._out.flush()
        except Exception:
            self.handleError(record)


def line(
    level: str,
    event: str,
    message: str,
    pipeline: str | None,
    table: str | None,
    fields: Mapping[str, Any],
    time: datetime,
) -> str:
    """One event; texts that are not UTF-8 are escaped."""
    known = {PIPELINE: pipeline, TABLE: table}
    head = {"time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"), "level": level, EVENT: event}
    whole = {**head, **{name: text for name, text in known.items() if text}, MESSAGE: message}
    return json.dumps({**whole, **{name: value for name, value in fields.items() if name not in whole}}, default=str)


def failure_line(text: str) -> str:
    """The error that ended the process."""
    return line("error", "failed", text, None, None, {}, datetime.now(UTC))
