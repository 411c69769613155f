"""Making files durable beside the work that goes on: the waits for the disk overlap with encoding the next file.

A file system writes what several files wait for in one go, and a directory is synced once for all of its new files.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

_THREADS = 4


class DiskSyncs:
    """Files and directories of this process that are on their way to the disk. May be used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Start anew: the threads and the waits of a parent process are not those of its child."""
        self._pool: ThreadPoolExecutor | None = None
        self._waits: list[Future[None]] = []
        self._directories: set[str] = set()

    def add(self, path: str) -> None:
        """Begin to make a complete file and its name durable. It may be deleted meanwhile."""
        descriptor = os.open(path, os.O_RDONLY)
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="disk-sync")
            self._waits.append(self._pool.submit(_sync_and_close, descriptor))
            self._directories.add(os.path.dirname(path))

    def wait(self) -> None:
        """Return when every file added so far is durable; the first failure is raised after all have ended."""
        with self._lock:
            waits, self._waits = self._waits, []
            directories, self._directories = self._directories, set()
        failures = [error for wait in waits if (error := wait.exception()) is not None]
        for failure in failures:
            raise failure
        for directory in sorted(directories):
            # A directory that is gone holds no file that anybody could miss.
            with suppress(FileNotFoundError):
                sync_path(directory)


def sync_path(path: str) -> None:
    """Make a file or a directory durable."""
    _sync_and_close(os.open(path, os.O_RDONLY))


def _sync_and_close(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
