"""Work on several tables or buckets at the same time: while one waits for the disk or a store, another continues.

Threads of one process share its interpreter, so this hides waits and does not make computing faster. Work that shares a
value with other work locks it. Each piece runs with the context of the thread that starts it, so that its log lines
belong to the same pipeline.
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
_IN_A_STORE = 48


def waits_at_once(root: str) -> int:
    """How many pieces of work below ``root`` are done at the same time.

    A local disk answers in less than a millisecond: more threads there take more time from each other than they hide. A
    store takes tens of milliseconds for each of the 25 requests that a table has in a batch.
    """
    return _IN_A_STORE if "://" in root and not root.startswith("file:") else _ON_DISK


class Start(Protocol):
    """Begins a piece of work; reading its result raises its failure."""

    def __call__(self, work: Callable[[], T], /) -> Future[T]: ...


@contextmanager
def side_by_side(at_once: int, *, finishes: bool = False) -> Iterator[Start]:
    """Run the pieces started in this block, up to ``at_once`` at a time; all have ended when the block is left.

    With ``at_once`` 1 each is done by the caller's thread before ``start`` returns. If the block is left with an error,
    pieces that have not begun are dropped, unless it ``finishes`` all of them.
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
    """Every piece of work, ended, in the order given; one alone is done by the caller's thread."""
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
