"""Turns: stream batches and the work alongside them never run at the same time, and neither starves the other."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Turns:
    """A fair lock: threads get it in the order of their requests. One thread must not take it twice."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()

    @property
    def is_taken(self) -> bool:
        with self._changed:
            return bool(self._waiting)

    @contextmanager
    def turn(self, while_waiting: Callable[[], bool] = lambda: True) -> Iterator[bool]:
        """Hold the turn during the block; False, without the turn, once ``while_waiting`` is no longer true."""
        mine = object()
        with self._changed:
            self._waiting.append(mine)
        try:
            yield self._is_mine(mine, while_waiting)
        finally:
            with self._changed:
                self._waiting.remove(mine)
                self._changed.notify_all()

    def _is_mine(self, mine: object, while_waiting: Callable[[], bool]) -> bool:
        with self._changed:
            while self._waiting[0] is not mine:
                if not while_waiting():
                    return False
                self._changed.wait(0.1)
            return True
