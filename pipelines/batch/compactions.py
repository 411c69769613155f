"""Work beside the query: while Spark closes a batch and decodes the next one, appended rows are compacted."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar, cast

T = TypeVar("T")


class Compactions:
    """Runs one piece of work after the other on a thread of its own. ``start`` and ``wait`` belong to one other."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tidemark-compactions")
        self._job_thread = ThreadPoolExecutor(1, thread_name_prefix="tidemark-write-job")
        self._started: list[Future[object]] = []

    @property
    def is_busy(self) -> bool:
        return any(not future.done() for future in tuple(self._started))

    def start(self, work: Callable[[], T]) -> Future[T]:
        """Do ``work`` after what was started here before."""
        return self._start(self._thread, work)

    def start_job(self, job: Callable[[], T]) -> Future[T]:
        """Run a job, after the one before, beside the ``work`` that takes what its tasks give."""
        return self._start(self._job_thread, job)

    def _start(self, thread: ThreadPoolExecutor, work: Callable[[], T]) -> Future[T]:
        future = thread.submit(contextvars.copy_context().run, work)
        self._started.append(cast("Future[object]", future))
        return future

    def raise_failure(self) -> None:
        """Raise what ended some work so far."""
        for future in tuple(self._started):
            if future.done():
                future.result()

    def close(self) -> None:
        """End the threads, once they have done what was started."""
        self._thread.shutdown(wait=False)
        self._job_thread.shutdown(wait=False)

    def wait(self) -> None:
        """Return when all that was started is done; raise what ended it."""
        for future in self._started:
            future.result()
        self._started.clear()
