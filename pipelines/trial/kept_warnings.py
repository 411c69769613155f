"""What the pipeline warns of during a trial: kept for whoever asked for the trial, and not printed meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if line not in self.lines:
            self.lines.append(line)


@contextmanager
def kept_warnings() -> Iterator[list[str]]:
    """The warnings of this block, each once."""
    collector, root = _Collector(), logging.getLogger()
    root.addHandler(collector)
    try:
        yield collector.lines
    finally:
        root.removeHandler(collector)
