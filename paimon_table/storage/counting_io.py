"""Storage that counts requests, and can be as slow as object storage; for benchmarks and limits in tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import pyarrow as pa

from paimon_table.storage.file_io import FileIO, FoundFile


@dataclass(slots=True)
class CountingFileIO:
    """``FileIO`` over another one. ``requests`` has the (kind, path) of each call that would be a request to a
    store."""

    io: FileIO
    requests: list[tuple[str, str]] = field(default_factory=list)
    latency_s: float = 0.0
    """The least time of each call."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, path: str) -> bytes:
        self._note("read", path)
        return self.io.read(path)

    def open_input(self, path: str) -> pa.NativeFile:
        self._note("open", path)
        return self.io.open_input(path)

    def write(self, path: str, data: bytes, durable: bool = True) -> None:
        self._note("write", path)
        self.io.write(path, data, durable)

    def write_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        self._note_all("write", [path for path, _ in files])
        self.io.write_all(files)

    def open_output(self, path: str) -> AbstractContextManager[pa.NativeFile]:
        self._note("write", path)
        return self.io.open_output(path)

    def sync(self) -> None:
        self.io.sync()

    def publish(self, path: str, data: bytes) -> bool:
        self._note("publish", path)
        return self.io.publish(path, data)

    def exists(self, path: str) -> bool:
        self._note("exists", path)
        return self.io.exists(path)

    def list_names(self, directory: str) -> list[str]:
        self._note("list", directory)
        return self.io.list_names(directory)

    def list_files(self, directory: str) -> list[FoundFile]:
        self._note("list", directory)
        return self.io.list_files(directory)

    def delete(self, path: str) -> None:
        self._note("delete", path)
        self.io.delete(path)

    def delete_all(self, paths: Sequence[str]) -> None:
        self._note_all("delete", paths)
        self.io.delete_all(paths)

    def delete_if_empty(self, directory: str) -> bool:
        return self.io.delete_if_empty(directory)

    def modified_ms(self, path: str) -> int:
        self._note("size", path)
        return self.io.modified_ms(path)

    def delete_tree(self, directory: str) -> None:
        self._note("delete", directory)
        self.io.delete_tree(directory)

    def is_link(self, path: str) -> bool:
        return self.io.is_link(path)

    def size_bytes(self, path: str) -> int:
        self._note("size", path)
        return self.io.size_bytes(path)

    def mkdirs(self, path: str) -> None:
        self.io.mkdirs(path)

    def _note(self, kind: str, path: str) -> None:
        self._note_all(kind, [path])

    def _note_all(self, kind: str, paths: Sequence[str]) -> None:
        """Note calls that a store answers in parallel."""
        with self._lock:
            self.requests.extend((kind, path) for path in paths)
        if self.latency_s:
            time.sleep(self.latency_s)
