"""The directory of lookup files of one machine: shared by tables and processes, bounded in bytes, rebuilt at will.

A lookup file has only content of its data file, and an open mapping outlives the file's name. So any lookup file may be
deleted at any moment. Those of replaced data files are deleted at once, the others when space is needed or after a week
without use.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa

from paimon_table.lookup.lookup_file import BrokenLookupFile, KeyWords, LookupFile, LookupFileWriter
from paimon_table.storage.outages import local_failure
from paimon_table.storage.private_directory import ensure_private

DEFAULT_MAX_BYTES = 20 << 30
_SUFFIX = ".lookup"
_STALE_TEMPORARY_S = 3600.0
_UNUSED_S = 7 * 86_400.0
_LOOK_AROUND_S = 60.0
"""The directory is cleaned after this time, or when one ``_PARTS``-th of its limit was added."""
_PARTS = 64
_MAX_MAPPED_FILES = 8192


@dataclass(frozen=True, slots=True)
class Contents:
    """The content of a file and its needs, for the message about a full disk."""

    words: str
    needs: str


ROWS = Contents(
    "a lookup file", "lookups need a local directory with about as much room as the uncompressed rows of their tables"
)


@cache
def shared_lookup_cache(directory: str, max_bytes: int = DEFAULT_MAX_BYTES) -> LookupCache:
    """The cache of this process for a directory."""
    return LookupCache(directory, max_bytes)


class LookupCache:
    """Lookup files by name: ``<table>/<data file>-<schema id of the rows>``, names of data files being unique.

    All files together take at most ``max_bytes``, and at most half of the space that the disk would have without them.
    Files stay mapped after their first use, because mapping them again costs a page fault for each page read. Threads
    may share it.
    """

    def __init__(
        self, directory: str, max_bytes: int = DEFAULT_MAX_BYTES, clock_s: Callable[[], float] = time.time
    ) -> None:
        self._directory = Path(directory)
        self._max_bytes = max_bytes
        self._clock_s = clock_s
        self._mapped: OrderedDict[str, LookupFile] = OrderedDict()
        self._lock = threading.Lock()
        self._looked_around_s = float("-inf")
        self._added_bytes = 0
        self._limit_bytes = max_bytes

    def open(self, name: str, words: KeyWords, schema: pa.Schema) -> LookupFile | None:
        """The file, if it is valid and has rows of this schema; otherwise None, and the file is removed.

        Copies of a table with different later changes have files of the same name with rows of different schemas.
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

    def build(
        self,
        name: str,
        words: KeyWords,
        schema: pa.Schema,
        batches: Iterable[pa.Table],
        contents: Contents = ROWS,
    ) -> LookupFile:
        """Write the file from rows in file order, then free space; rows are not kept in memory.

        The returned file stays usable even if others delete it. Raises SinkUnavailable if it cannot be written.
        """
        path = self._path(name)
        with self._writing(contents):
            ensure_private(str(path.parent))
            writer = LookupFileWriter(path, schema, words)
        try:
            for rows in batches:
                with self._writing(contents):
                    writer.append(rows)
            with self._writing(contents):
                file = writer.finish()
        except BaseException:
            writer.abandon()
            raise
        self._keep_mapped(name, file)
        self._make_room(path)
        return file

    @contextmanager
    def _writing(self, contents: Contents) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise local_failure(contents.words, self._directory, contents.needs, error) from error

    def discard(self, names: Iterable[str]) -> None:
        """Delete the lookup files of these data files, which are no longer looked up; missing ones are no error."""
        for name in names:
            with self._lock:
                self._mapped.pop(name, None)
            self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._directory / (name + _SUFFIX)

    def _make_room(self, built: Path) -> None:
        """Clean the directory from time to time, and after large additions; ``built`` stays."""
        now_s = self._clock_s()
        with self._lock, suppress(FileNotFoundError):
            self._added_bytes += built.stat().st_size
        is_much = self._added_bytes * _PARTS >= self._limit_bytes
        if is_much or now_s - self._looked_around_s >= _LOOK_AROUND_S:
            self._added_bytes, self._looked_around_s = 0, now_s
            self._evict(built, now_s)

    def _evict(self, built: Path, now_s: float) -> None:
        """Delete the least recently used files until the rest fits, and leftovers of dead processes and tables."""
        entries = []
        for directory, directories, files in os.walk(self._directory):
            for path in (Path(directory, name) for name in [*files, *directories]):
                with suppress(OSError):
                    status = path.stat()
                    if path.name.endswith(_SUFFIX):
                        entries.append((status.st_mtime, status.st_size, path))
                    elif path.name.endswith(".tmp") and status.st_mtime < now_s - _STALE_TEMPORARY_S:
                        path.unlink()
                    elif path.is_dir() and status.st_mtime < now_s - _UNUSED_S:
                        path.rmdir()
        present = {path for _, _, path in entries}
        used = sum(size for _, size, _ in entries)
        with suppress(FileNotFoundError):
            self._limit_bytes = min(self._max_bytes, (used + shutil.disk_usage(self._directory).free) // 2)
        for used_s, size, path in sorted(entries, key=lambda entry: entry[0]):
            if used <= self._limit_bytes and used_s >= now_s - _UNUSED_S:
                break
            if path != built:
                path.unlink(missing_ok=True)
                present.discard(path)
                used -= size
        self._unmap_all_but(present)

    def _unmap_all_but(self, present: set[Path]) -> None:
        """Unmap files that this or another process deleted, so that their disk space becomes free."""
        with self._lock:
            for name in [name for name in self._mapped if self._path(name) not in present]:
                del self._mapped[name]
