"""The most memory and open files that a process has while something runs, looked at every few milliseconds."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

_PERIOD_S = 0.01


@dataclass(slots=True)
class Peaks:
    """Use as a context manager; the numbers are there when the block has ended. Linux only.

    ``own_bytes`` is memory that belongs to the process alone; ``resident_bytes`` has the pages of mapped files as well,
    which the system takes back when it needs them.
    """

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
        lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
        sizes = {line[0]: int(line[1]) << 10 for line in lines if line[0] in {"RssAnon:", "VmRSS:"}}
        self.own_bytes = max(self.own_bytes, sizes["RssAnon:"])
        self.resident_bytes = max(self.resident_bytes, sizes["VmRSS:"])
        self.open_files = max(self.open_files, len(os.listdir("/proc/self/fd")))

    def __str__(self) -> str:
        return (
            f"{self.seconds:6.1f} s, own memory {self.own_bytes >> 20} MiB, with mapped files "
            f"{self.resident_bytes >> 20} MiB, {self.open_files} open files"
        )
