"""A file system in memory that can crash after any operation and lose responses; for tests and experiments.

Like a disk after a power failure, it keeps the files that were complete and durable. All ``MemoryFileIO`` that mount a
``MemoryDisk`` share its files, in any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from paimon_table.errors import CommitOutcomeUnknown
from paimon_table.storage.file_io import FoundFile
from paimon_table.surroundings import now_ms


class SimulatedCrash(BaseException):
    """The process dies here. It is not an Exception, so that no handler can catch it."""


@dataclass(slots=True)
class MemoryDisk:
    """The files and their lock; outlives the processes that mount it."""

    files: dict[str, bytes] = field(default_factory=dict)
    volatile: set[str] = field(default_factory=set)
    """Files that a crash removes."""
    modified_ms: dict[str, int] = field(default_factory=dict)
    """The time of the last write of each file that ever existed."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def after_power_cut(self) -> MemoryDisk:
        """The files that remain for the next process."""
        left = {path: data for path, data in self.files.items() if path not in self.volatile}
        return MemoryDisk(left, modified_ms=dict(self.modified_ms))


@dataclass(slots=True)
class MemoryFileIO:
    """A process that mounts a disk.

    After ``crash_after`` operations the process dies: the last operation has happened, and every further one raises
    SimulatedCrash. If ``lose_answer`` returns a value for a publish, it raises CommitOutcomeUnknown although it has
    happened (``"done"``) or has not (``"not done"``).
    """

    disk: MemoryDisk = field(default_factory=MemoryDisk)
    crash_after: int | None = None
    lose_answer: Callable[[str], str | None] = lambda path: None
    operations: int = 0
    changes: list[int] = field(default_factory=list)
    """The operations that changed the disk. A crash after another operation leaves the state after the last of
    these."""
    streamed: set[str] = field(default_factory=set)
    """Files that ``sync`` makes durable."""

    def read(self, path: str) -> bytes:
        with self._operation():
            return self._file(path)

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self.read(path))

    def write(self, path: str, data: bytes, durable: bool = True) -> None:
        with self._operation():
            self._put(path, data, durable)

    def write_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """One operation per file, so that a crash can fall between them."""
        for path, data in files:
            with self._operation():
                if path in self.disk.files:
                    raise FileExistsError(path)
                self._put(path, data, durable=True)

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        """Opening and closing are an operation each; until ``sync`` a crash removes the file."""
        with self._operation():
            self._put(path, b"", durable=False)
        stream = pa.BufferOutputStream()
        try:
            yield stream
            with self._operation():
                self._put(path, stream.getvalue().to_pybytes(), durable=False)
                self.streamed.add(path)
        except Exception:
            self.delete(path)
            raise

    def sync(self) -> None:
        """Performs one operation if there is something to do."""
        if self.streamed:
            with self._operation():
                self.disk.volatile -= self.streamed
                self.changes.append(self.operations)
                self.streamed.clear()

    def publish(self, path: str, data: bytes) -> bool:
        lost = self.lose_answer(path)
        with self._operation():
            if path in self.disk.files:
                return False
            if lost != "not done":
                self._put(path, data, durable=True)
        if lost is not None:
            raise CommitOutcomeUnknown(f"the response to publishing {path} was lost; check whether the file exists")
        return True

    def exists(self, path: str) -> bool:
        with self._operation():
            return path in self.disk.files

    def list_names(self, directory: str) -> list[str]:
        prefix = directory.rstrip("/") + "/"
        with self._operation():
            return sorted({path[len(prefix) :].split("/")[0] for path in self.disk.files if path.startswith(prefix)})

    def list_files(self, directory: str) -> list[FoundFile]:
        prefix = directory.rstrip("/") + "/"
        with self._operation():
            found = [(path[len(prefix) :], path) for path in self.disk.files if path.startswith(prefix)]
            return [
                FoundFile(name, len(self.disk.files[path]), self.disk.modified_ms.get(path, 0))
                for name, path in sorted(found)
                if "/" not in name
            ]

    def delete(self, path: str) -> None:
        with self._operation():
            if self.disk.files.pop(path, None) is not None:
                self.changes.append(self.operations)
            self.disk.volatile.discard(path)

    def delete_all(self, paths: Sequence[str]) -> None:
        """One operation per file, so that a crash can fall between them."""
        for path in paths:
            self.delete(path)

    def delete_if_empty(self, directory: str) -> bool:
        """True: directories disappear with their last file."""
        return not self.list_names(directory)

    def modified_ms(self, path: str) -> int:
        """All files have the same time, 1970."""
        self.size_bytes(path)
        return 0

    def delete_tree(self, directory: str) -> None:
        """One operation per file."""
        prefix = directory.rstrip("/") + "/"
        for path in sorted(path for path in tuple(self.disk.files) if path.startswith(prefix)):
            self.delete(path)

    def is_link(self, path: str) -> bool:
        """False: there are no links."""
        return False

    def size_bytes(self, path: str) -> int:
        with self._operation():
            return len(self._file(path))

    def mkdirs(self, path: str) -> None:
        """Nothing to do: a directory exists once it has a file."""

    @contextmanager
    def _operation(self) -> Iterator[None]:
        """One step of the process with exclusive access to the disk; the process may die right after it."""
        with self.disk.lock:
            if self.crash_after is not None and self.operations >= self.crash_after:
                raise SimulatedCrash(f"the process died after {self.crash_after} operations")
            self.operations += 1
            yield
            if self.operations == self.crash_after:
                raise SimulatedCrash(f"the process died after {self.crash_after} operations")

    def _file(self, path: str) -> bytes:
        try:
            return self.disk.files[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def _put(self, path: str, data: bytes, durable: bool) -> None:
        self.disk.files[path] = data
        self.changes.append(self.operations)
        self.disk.modified_ms[path] = now_ms()
        if durable:
            self.disk.volatile.discard(path)
        else:
            self.disk.volatile.add(path)
