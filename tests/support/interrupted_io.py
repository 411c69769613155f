"""Two processes at one table in one thread: one does all of its work within an operation of the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from paimon_table.storage.memory_io import MemoryFileIO


@dataclass(slots=True)
class InterruptedIO(MemoryFileIO):
    """Another process does all of its work right before operation ``at`` of this one."""

    at: int = -1
    other: Callable[[], None] = lambda: None

    @contextmanager
    def _operation(self) -> Iterator[None]:
        if self.operations == self.at:
            self.at = -1
            self.other()
        with MemoryFileIO._operation(self):
            yield
