"""The time of a task's steps: seconds per named step, added up over the calls of one thread.

The time of a nested step counts for the outer step. A thread runs one piece of work at a time, which takes the sums at
its start and end.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


class _Steps(threading.local):
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.is_running = False


_steps = _Steps()


def timed(step: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """A decorator that adds the time of every call to ``step``; not for generators."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            if _steps.is_running:
                return function(*args, **kwargs)
            _steps.is_running = True
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                _steps.is_running = False
                _steps.seconds[step] = _steps.seconds.get(step, 0.0) + time.perf_counter() - started

        return call

    return decorate


def take_seconds() -> dict[str, float]:
    """The sums of this thread since the last call, by step."""
    taken, _steps.seconds = _steps.seconds, {}
    return taken
