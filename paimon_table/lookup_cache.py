"""The directory of lookup files of one machine: shared by processes, bounded in bytes, rebuilt at will.

A lookup file holds nothing that its data file does not hold, and an open mapping outlives the file's name; so any of
them may be deleted at any moment.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from paimon_table.lookup_file import BrokenLookupFile, KeyWords, LookupFile, LookupFileWriter

DEFAULT_MAX_BYTES = 20 << 30
_SUFFIX = ".lookup"
_STALE_TEMPORARY_S = 3600.0


class LookupCache:
    """Lookup files by name. Names are those of data files, which are unique, plus the schema id of the rows."""

    def __init__(
        self, directory: str, max_bytes: int = DEFAULT_MAX_BYTES, clock_s: Callable[[], float] = time.time
    ) -> None:
        self._directory = Path(directory)
        self._max_bytes = max_bytes
        self._clock_s = clock_s

    def open(self, name: str, words: KeyWords) -> LookupFile | None:
        """The file if there is a good one; a broken one is removed."""
        path = self._path(name)
        try:
            opened = LookupFile(path, words)
            now_s = self._clock_s()
            os.utime(path, (now_s, now_s))
        except FileNotFoundError:
            return None
        except (BrokenLookupFile, pa.ArrowInvalid, OSError):
            path.unlink(missing_ok=True)
            return None
        return opened

    def build(self, name: str, words: KeyWords, schema: pa.Schema, batches: Iterable[pa.Table]) -> None:
        """Write the file from rows in file order, then make room; rows are not kept in memory."""
        self._directory.mkdir(parents=True, exist_ok=True)
        writer = LookupFileWriter(self._path(name), schema, words)
        try:
            for rows in batches:
                writer.append(rows)
            writer.finish()
        except BaseException:
            writer.abandon()
            raise
        self._evict(keep=self._path(name).name)

    def _path(self, name: str) -> Path:
        return self._directory / (name + _SUFFIX)

    def _evict(self, keep: str) -> None:
        """Delete the files used longest ago until the rest fits, and temporary files of processes that died."""
        entries = []
        for entry in os.scandir(self._directory):
            with suppress(FileNotFoundError):
                status = entry.stat()
                if entry.name.endswith(_SUFFIX):
                    entries.append((status.st_mtime, status.st_size, entry))
                elif entry.name.endswith(".tmp") and status.st_mtime < self._clock_s() - _STALE_TEMPORARY_S:
                    Path(entry.path).unlink(missing_ok=True)
        excess = sum(size for _, size, _ in entries) - self._max_bytes
        for _, size, entry in sorted(entries, key=lambda item: item[0]):
            if excess <= 0:
                return
            if entry.name != keep:
                Path(entry.path).unlink(missing_ok=True)
                excess -= size
