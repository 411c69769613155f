"""Consumers: the progress of streaming readers of a table, which keeps snapshots from expiring.

Implements Paimon's ``consumer/consumer-NAME``, which a reader replaces at each progress.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from paimon_table.errors import ConfigError, CorruptFile
from paimon_table.history.names import check_name
from paimon_table.json_text import as_whole_number, pretty
from paimon_table.metadata.paths import TablePaths
from paimon_table.storage.file_io import FileIO

_NEXT = "nextSnapshot"
_READS = 10
_WAIT_S = 0.2
"""The retries and waits of Java's readers for a file that is being written."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """A reader that has read all snapshots before ``next_snapshot``."""

    name: str
    next_snapshot: int
    modified_ms: int
    """The time of its last progress."""


@dataclass(frozen=True, slots=True)
class ConsumerStore:
    """The ``consumer/`` directory of a table."""

    io: FileIO
    paths: TablePaths
    sleep_s: Callable[[float], None] = field(default=time.sleep, repr=False, compare=False)
    """How to wait for a file that another process is writing; tests pass their own."""

    def names(self) -> list[str]:
        found = self.io.list_names(self.paths.consumer_dir)
        return [name.removeprefix("consumer-") for name in found if name.startswith("consumer-")]

    def find(self, name: str) -> Consumer | None:
        """Read a consumer; None if it does not exist. Raises CorruptFile if its file is not readable.

        Other writers replace the file in place, so that it is empty or cut off for a moment. ``find`` therefore reads
        the file again before it raises CorruptFile.
        """
        for _ in range(_READS - 1):
            try:
                return self._read(name)
            except CorruptFile:
                self.sleep_s(_WAIT_S)
        return self._read(name)

    def _read(self, name: str) -> Consumer | None:
        path = self.paths.consumer_file(name)
        try:
            text, modified_ms = self.io.read(path), self.io.modified_ms(path)
        except FileNotFoundError:
            return None
        try:
            return Consumer(name, as_whole_number(json.loads(text)[_NEXT]), modified_ms)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CorruptFile(
                f"{path} is not readable as a consumer ({error!r}); reset or delete it: 'tidemark table consumers'"
            ) from error

    def all(self) -> list[Consumer]:
        return [found for name in self.names() if (found := self.find(name)) is not None]

    def reset(self, name: str, next_snapshot: int) -> None:
        """Let the consumer continue with this snapshot; creates a missing one."""
        check_name("consumer", name)
        self.io.write(self.paths.consumer_file(name), pretty({_NEXT: next_snapshot}).encode())

    def check_there(self, name: str) -> None:
        """Raises ConfigError without such a consumer."""
        if name not in self.names():
            names = ", ".join(sorted(self.names())) or "none"
            raise ConfigError(f"{self.paths.root} has no consumer {name!r}; it has: {names}")

    def delete(self, name: str) -> None:
        """Delete a consumer; raises ConfigError without such a consumer."""
        self.check_there(name)
        self.io.delete(self.paths.consumer_file(name))

    def forgotten(self, now_ms: int, after_ms: int | None) -> list[str]:
        """Consumers without progress for this time; none without a time."""
        if after_ms is None:
            return []
        ages = {}
        for name in self.names():
            try:
                ages[name] = now_ms - self.io.modified_ms(self.paths.consumer_file(name))
            except FileNotFoundError:
                continue
        return [name for name, age_ms in ages.items() if age_ms > after_ms]
