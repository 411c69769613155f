"""Blobs on a local disk: if all tasks run on one machine, large blobs bypass Spark's shuffle.

A shuffle would copy the rows of a blob five times between the worker that decodes them and the one that writes them.
Through the spool, tasks give the driver only file names. The spool also carries the driver's data for tasks: their plan
and these names. After a batch the driver removes its files. No other user can read or write the directory, because the
files contain rows and are unpickled.
"""

from __future__ import annotations

import os
import pickle
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from paimon_table.storage.outages import local_failure
from paimon_table.storage.private_directory import ensure_private, make_file, open_own, process_directory
from sinks.exchange.blob import REPORT, Blob

SMALLEST_BYTES = 64 << 10
"""Below this size, data travels with the names: a separate file would cost more."""

_POLL_S = 0.002

_ALIGNMENT = 64
"""Alignment of a blob's data in its file, so that Arrow reads it in place."""


@dataclass(frozen=True, slots=True)
class Spool:
    """A directory that the driver and all tasks see under the same path."""

    directory: str

    @staticmethod
    def open(parent: str) -> Spool:
        """A separate spool in the private directory of this process below ``parent``, removed with it."""
        return _new_spool(process_directory(parent))

    def beside(self) -> Spool:
        """Another spool, which is cleared separately."""
        return _new_spool(os.path.dirname(self.directory))

    def put(self, blobs: Sequence[Blob]) -> list[Blob]:
        """The blobs with their data in one file, if together they are large; reports are unchanged."""
        if sum(len(blob.data) for blob in blobs if blob.target != REPORT) < SMALLEST_BYTES:
            return list(blobs)
        file = f"{self.directory}/{uuid.uuid4()}"
        placed = []
        with self._writing(), _new_file(file) as out:
            for blob in blobs:
                if blob.target == REPORT:  # the driver reads it without the file
                    placed.append(blob)
                    continue
                out.write(bytes(-out.tell() % _ALIGNMENT))
                size = len(blob.data)
                placed.append(replace(blob, data=b"", file=file, file_offset=out.tell(), byte_count=size))
                out.write(blob.data)
        return placed

    def give(self, name: str, value: Any) -> None:
        """Leave a picklable value under a name, which is used once."""
        written = f"{self.directory}/{uuid.uuid4()}"
        with self._writing():
            make_file(written)
            with open(written, "wb") as out:
                pickle.dump(value, out)
            os.rename(written, f"{self.directory}/{name}")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            needs = "a batch needs a local directory with enough space for its rows"
            raise local_failure("the files between tasks", self.directory, needs, error) from error

    def given(self, name: str) -> Any | None:
        """The value left under the name; None if there is none."""
        try:
            with open_own(f"{self.directory}/{name}") as source:
                return pickle.load(source)
        except FileNotFoundError:
            return None

    def give_one_of(self, group: str, value: Any) -> None:
        """Leave one of many picklable values for the reader that takes all values of the group."""
        self.give(f"{group}.{uuid.uuid4()}", value)

    def taken(self, group: str) -> Iterator[Any]:
        """The values left for the group so far; each is given once."""
        with suppress(FileNotFoundError):  # another process removed the empty directory; `give` recreates it
            for name in os.listdir(self.directory):
                if name.startswith(f"{group}."):
                    value = self.given(name)
                    os.unlink(f"{self.directory}/{name}")
                    yield value

    def announce(self, name: str, results: Sequence[bytes]) -> None:
        """Give the driver results of a task that still runs. A name is used once."""
        self.give(name, list(results))

    def announced(self, names: Sequence[str], is_over: Callable[[], bool]) -> list[bytes] | None:
        """Wait for the values that tasks announce under ``names``; None if some tasks ended without one."""
        found: list[bytes] = []
        for name in names:
            while (results := self.given(name)) is None:
                if is_over() and not os.path.exists(f"{self.directory}/{name}"):
                    return None
                time.sleep(_POLL_S)
            found += results
        return found

    def clear(self) -> None:
        """Remove all files; those that a worker still maps stay readable."""
        shutil.rmtree(self.directory, ignore_errors=True)
        ensure_private(self.directory)

    def remove(self) -> None:
        """Remove the spool, which is no longer used."""
        shutil.rmtree(self.directory, ignore_errors=True)


def _new_spool(parent: str) -> Spool:
    directory = f"{parent}/spool-{uuid.uuid4()}"
    ensure_private(directory)
    return Spool(directory)


@contextmanager
def _new_file(path: str) -> Iterator[pa.OSFile]:
    make_file(path)
    with pa.OSFile(path, "wb") as out:
        yield out


def loaded(blobs: Iterable[Blob]) -> Iterator[Blob]:
    """The blobs with their data in memory, mapped from their files."""
    mapped: dict[str, pa.Buffer] = {}
    for blob in blobs:
        if not blob.file:
            yield blob
            continue
        if blob.file not in mapped:
            with pa.memory_map(blob.file) as source:
                mapped[blob.file] = source.read_buffer()
        data = mapped[blob.file].slice(blob.file_offset, blob.byte_count)
        yield replace(blob, data=data, file="", file_offset=0, byte_count=0)
