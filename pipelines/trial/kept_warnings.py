"""The pipeline's warnings during a trial: kept for the caller, and not printed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pipelines.report.run_log import PACKAGES


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
    """The warnings of this block, each once, wherever the process sends its messages otherwise."""
    collector = _Collector()
    loggers = [logging.getLogger(package) for package in PACKAGES]
    before = [(logger, logger.handlers[:], logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.handlers[:], logger.propagate = [collector], False
    try:
        yield collector.lines
    finally:
        for logger, handlers, propagate in before:
            logger.handlers[:], logger.propagate = handlers, propagate
