"""Compactions in the background: they run while Spark closes a batch and decodes the next one."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar, cast

T = TypeVar("T")


class Compactions:
    """Runs pieces of work one after the other on a separate thread.

    Only one other thread calls ``start`` and ``wait``.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tidemark-compactions")
        self._job_thread = ThreadPoolExecutor(1, thread_name_prefix="tidemark-write-job")
        self._started: list[Future[object]] = []

    @property
    def is_busy(self) -> bool:
        return any(not future.done() for future in tuple(self._started))

    def start(self, work: Callable[[], T]) -> Future[T]:
        """Run ``work`` after all earlier work."""
        return self._start(self._thread, work)

    def start_job(self, job: Callable[[], T]) -> Future[T]:
        """Run a job after the previous one, in parallel with the ``work`` that takes the results of its tasks."""
        return self._start(self._job_thread, job)

    def _start(self, thread: ThreadPoolExecutor, work: Callable[[], T]) -> Future[T]:
        future = thread.submit(contextvars.copy_context().run, work)
        self._started.append(cast("Future[object]", future))
        return future

    def raise_failure(self) -> None:
        """Raise the exception of the first work that failed since the last call."""
        for future in tuple(self._started):
            if future.done():
                future.result()

    def close(self) -> None:
        """End the threads once all started work is done."""
        self._thread.shutdown(wait=False)
        self._job_thread.shutdown(wait=False)

    def wait(self) -> None:
        """Return when all started work is done; raise its exception."""
        for future in self._started:
            future.result()
        self._started.clear()
