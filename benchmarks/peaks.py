"""Memory and open files of a process; the most that it has while something runs, looked at every few milliseconds."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

_PERIOD_S = 0.01


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """The memory of one process at one moment.

    ``own_bytes`` is memory that belongs to the process alone. ``resident_bytes`` also has the pages of mapped files,
    which the system can reclaim.
    """

    own_bytes: int
    resident_bytes: int
    open_files: int
    threads: int


def process_use(pid: int) -> ProcessUse:
    """Linux only. Raises OSError if the process does not exist, or ends at the same time."""
    proc = Path(f"/proc/{pid}")
    numbers = {}
    for line in (proc / "status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in {"RssAnon", "VmRSS", "Threads"}:
            numbers[name] = int(value.split()[0])
    if len(numbers) < 3:
        raise ProcessLookupError(f"process {pid} has ended")
    return ProcessUse(
        own_bytes=numbers["RssAnon"] << 10,
        resident_bytes=numbers["VmRSS"] << 10,
        open_files=len(os.listdir(proc / "fd")),
        threads=numbers["Threads"],
    )


@dataclass(slots=True)
class Peaks:
    """Use as a context manager; the numbers are there when the block has ended. ``ProcessUse`` describes them."""

    own_bytes: int = 0
    resident_bytes: int = 0
    open_files: int = 0
    seconds: float = 0.0
    _is_over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Peaks:
        self.seconds = time.perf_counter()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._is_over.set()
        assert self._thread is not None
        self._thread.join()
        self.seconds = time.perf_counter() - self.seconds

    def _watch(self) -> None:
        while True:
            self._look()
            if self._is_over.wait(_PERIOD_S):
                return

    def _look(self) -> None:
        use = process_use(os.getpid())
        self.own_bytes = max(self.own_bytes, use.own_bytes)
        self.resident_bytes = max(self.resident_bytes, use.resident_bytes)
        self.open_files = max(self.open_files, use.open_files)

    def __str__(self) -> str:
        return (
            f"{self.seconds:6.1f} s, own memory {self.own_bytes >> 20} MiB, with mapped files "
            f"{self.resident_bytes >> 20} MiB, {self.open_files} open files"
        )
