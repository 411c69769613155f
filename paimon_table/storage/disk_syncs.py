"""Makes files durable in the background: the waits for the disk overlap with encoding the next file.

A file system syncs several waiting files together, and a directory is synced once for all of its new files.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

_THREADS = 8
_MOST_PENDING = 64
"""The most files of one thread that wait for the disk; each is open."""

_SMALL_BYTES = 1 << 20
"""Up to this size a file is synced only during the wait, because handing it to a thread costs more than it hides."""


class _Pending(threading.local):
    """Files that one thread has added and not waited for."""

    def __init__(self) -> None:
        self.waits: deque[tuple[int, Future[None] | None]] = deque()
        """Descriptors and the results of their syncs; None: not started."""
        self.directories: set[str] = set()


class DiskSyncs:
    """Files and directories that are being synced. Threads do not see each other's files or failures."""

    def __init__(self) -> None:
        self._start()
        os.register_at_fork(after_in_child=self._start)

    def _start(self) -> None:
        """Start without pending files, because a child process cannot use its parent's threads, locks and waits."""
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._pending = _Pending()

    def add(self, path: str) -> None:
        """Start to make a complete file and its name durable. It may be deleted before that.

        If many files are pending, raises the OSError of an earlier one.
        """
        self.add_open(os.open(path, os.O_RDONLY), os.path.dirname(path))

    def add_open(self, descriptor: int, directory: str) -> None:
        """As ``add``, for a complete open file in ``directory``; closes it when it is durable."""
        pending = self._pending
        if len(pending.waits) >= _MOST_PENDING:
            error = _ended(*pending.waits.popleft())
            if error is not None:
                os.close(descriptor)
                raise error
        is_small = os.fstat(descriptor).st_size <= _SMALL_BYTES
        pending.waits.append((descriptor, None if is_small else self._begun(descriptor)))
        pending.directories.add(directory)

    def _begun(self, descriptor: int) -> Future[None]:
        return self._threads().submit(_sync_and_close, descriptor)

    def wait(self) -> None:
        """Return when every file that this thread added is durable; a failure is raised after all have ended.

        This thread syncs the files that no other thread has started.
        """
        waits, self._pending.waits = self._pending.waits, deque()
        directories, self._pending.directories = self._pending.directories, set()
        # This thread syncs the last one.
        pending = [
            (descriptor, self._begun(descriptor) if begun is None and left else begun)
            for left, (descriptor, begun) in zip(range(len(waits) - 1, -1, -1), waits, strict=True)
        ]
        failures = [error for each in reversed(pending) if (error := _ended(*each)) is not None]
        for failure in failures:
            raise failure
        for directory in sorted(directories):
            # A removed directory has no files to sync.
            with suppress(FileNotFoundError):
                sync_path(directory)

    def _threads(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="disk-sync")
            return self._pool


def _ended(descriptor: int, wait: Future[None] | None) -> BaseException | None:
    if wait is not None and not wait.cancel():
        return wait.exception()
    try:
        _sync_and_close(descriptor)
    except OSError as error:
        return error
    return None


def sync_path(path: str) -> None:
    """Make a file or a directory durable."""
    _sync_and_close(os.open(path, os.O_RDONLY))


def _sync_and_close(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
