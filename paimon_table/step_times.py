"""Where a task spends its time: seconds per named step, added up over the calls of this process.

A step inside another one counts for the outer one. A worker process runs one task at a time, which takes the sums when
it begins and when it ends.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")
_seconds: dict[str, float] = {}
_running: list[str] = []


def timed(step: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """A decorator that adds the time of every call to ``step``; not for generators."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            if _running:
                return function(*args, **kwargs)
            _running.append(step)
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                _running.clear()
                _seconds[step] = _seconds.get(step, 0.0) + time.perf_counter() - started

        return call

    return decorate


def take_seconds() -> dict[str, float]:
    """The sums since the last call, by step."""
    taken = dict(_seconds)
    _seconds.clear()
    return taken
