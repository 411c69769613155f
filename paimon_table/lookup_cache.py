"""The directory of lookup files of one machine: shared by processes, bounded in bytes, rebuilt at will.

A lookup file holds nothing that its data file does not hold, and an open mapping outlives the file's name; so any of
them may be deleted at any moment.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

import pyarrow as pa

from paimon_table.lookup_file import BrokenLookupFile, KeyWords, LookupFile, LookupFileWriter

DEFAULT_MAX_BYTES = 20 << 30
_SUFFIX = ".lookup"
_STALE_TEMPORARY_S = 3600.0
_MAX_MAPPED_FILES = 512


@cache
def shared_lookup_cache(directory: str, max_bytes: int = DEFAULT_MAX_BYTES) -> LookupCache:
    """The cache of this process for a directory."""
    return LookupCache(directory, max_bytes)


class LookupCache:
    """Lookup files by name. Names are those of data files, which are unique, plus the schema id of the rows.

    Files stay mapped after their first use, because mapping them anew costs a page fault for each page touched. May be
    used by several threads.
    """

    def __init__(
        self, directory: str, max_bytes: int = DEFAULT_MAX_BYTES, clock_s: Callable[[], float] = time.time
    ) -> None:
        self._directory = Path(directory)
        self._max_bytes = max_bytes
        self._clock_s = clock_s
        self._mapped: OrderedDict[str, LookupFile] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, name: str, words: KeyWords, schema: pa.Schema) -> LookupFile | None:
        """The file if there is a good one with rows of this schema; another one is removed.

        Copies of a table that evolved apart have files of one name with rows of different schemas.
        """
        path = self._path(name)
        try:
            now_s = self._clock_s()
            os.utime(path, (now_s, now_s))
            with self._lock:
                mapped = self._mapped.pop(name, None)
            file = mapped or LookupFile(path, words)
            if not file.schema.equals(schema):
                raise BrokenLookupFile(f"{path} has rows of another schema")
            return self._keep_mapped(name, file)
        except FileNotFoundError:
            with self._lock:
                self._mapped.pop(name, None)
            return None
        except (BrokenLookupFile, pa.ArrowInvalid, OSError):
            path.unlink(missing_ok=True)
            return None

    def _keep_mapped(self, name: str, file: LookupFile) -> LookupFile:
        with self._lock:
            self._mapped[name] = file
            while len(self._mapped) > _MAX_MAPPED_FILES:
                self._mapped.popitem(last=False)
        return file

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
        present = {entry.name.removesuffix(_SUFFIX) for _, _, entry in entries}
        excess = sum(size for _, size, _ in entries) - self._max_bytes
        for _, size, entry in sorted(entries, key=lambda item: item[0]):
            if excess <= 0:
                break
            if entry.name != keep:
                Path(entry.path).unlink(missing_ok=True)
                present.discard(entry.name.removesuffix(_SUFFIX))
                excess -= size
        self._unmap_all_but(present)

    def _unmap_all_but(self, present: set[str]) -> None:
        """Let go of files that were deleted, here or by another process, so that their disk space comes free."""
        with self._lock:
            for name in self._mapped.keys() - present:
                del self._mapped[name]
