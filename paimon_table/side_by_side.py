"""Parallel work on several tables or buckets: while one waits for the disk or a store, another continues.

Threads of one process share its interpreter, so this hides waits but does not speed up computations. Work must lock
values that it shares with other work. Each piece runs in the context of the thread that starts it, so that its log
lines belong to the same pipeline.
"""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Protocol, TypeVar

T = TypeVar("T")
X = TypeVar("X")

_ON_DISK = 4
_IN_A_STORE = 128


def waits_at_once(root: str) -> int:
    """The number of pieces of work below ``root`` to run in parallel.

    A local disk answers in less than a millisecond, so more threads cost more time than they hide. A store takes tens
    of milliseconds for each of the 25 requests of a table in a batch.
    """
    return _IN_A_STORE if is_store(root) else _ON_DISK


def is_store(root: str) -> bool:
    """Whether each request takes tens of milliseconds, as in an object store."""
    return "://" in root and not root.startswith("file:")


class Start(Protocol):
    """Starts a piece of work; reading its result raises its failure."""

    def __call__(self, work: Callable[[], T], /) -> Future[T]: ...


@contextmanager
def side_by_side(at_once: int, *, finishes: bool = False) -> Iterator[Start]:
    """Run the pieces started in this block, up to ``at_once`` at a time; waits for all at the end of the block.

    With ``at_once`` 1 the caller's thread runs each piece before ``start`` returns. If the block raises an error,
    pieces that have not started are dropped, unless it ``finishes`` all of them.
    """
    if at_once == 1:
        yield _done
        return
    threads = ThreadPoolExecutor(at_once, thread_name_prefix="tidemark-side-by-side")

    def start(work: Callable[[], T], /) -> Future[T]:
        return threads.submit(contextvars.copy_context().run, work)

    try:
        yield start
    except BaseException:
        threads.shutdown(cancel_futures=not finishes)
        raise
    threads.shutdown()


def all_done(works: Iterable[Callable[[], T]], at_once: int) -> list[Future[T]]:
    """Run all pieces of work; returns the finished ones in the order given. The caller's thread runs a single one."""
    given = list(works)
    with side_by_side(max(1, min(at_once, len(given)))) as start:
        return [start(work) for work in given]


def in_parallel(look: Callable[[X], T], items: Iterable[X], at_once: int) -> Iterator[tuple[X, T]]:
    """Each item with the result of ``look``, in the order given. Raises the first failure, and drops what is not begun.

    The looks run ahead of the caller, who gets each result once.
    """
    given = list(items)
    with side_by_side(max(1, min(at_once, len(given)))) as start:
        begun = deque((item, start(partial(look, item))) for item in given)
        while begun:
            item, found = begun.popleft()
            yield item, found.result()


def _done(work: Callable[[], T], /) -> Future[T]:
    future: Future[T] = Future()
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
    return future
