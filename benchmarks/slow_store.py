"""An S3 server on loopback, in a process of its own, that delays each answer and counts the requests."""

from __future__ import annotations

import multiprocessing
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

import psutil

from tests.support.s3_server import s3_server

_FILES = (
    ("schema", r"/schema/"),
    ("hint", r"/snapshot/(LATEST|EARLIEST)$"),
    ("snapshot", r"/snapshot/"),
    ("list", r"/manifest/manifest-list-"),
    ("manifest", r"/manifest/"),
    ("changelog", r"/changelog-[^/]*$"),
    ("data", r"/bucket-"),
)
"""Kinds of files of a table, by their paths; the first that fits counts."""


def kind_of_file(path: str) -> str:
    return next((kind for kind, pattern in _FILES if re.search(pattern, path)), "other")


@dataclass(frozen=True, slots=True)
class SlowStore:
    """A server that runs."""

    options: Mapping[str, str]
    """Those of a catalog on it."""
    process_id: int
    _line: Connection

    def processor_seconds(self) -> float:
        """What the server has used so far; a real store uses another machine."""
        used = psutil.Process(self.process_id).cpu_times()
        return used.user + used.system

    def requests(self) -> Counter[str]:
        """The requests since the last call, as ``METHOD kind of file``."""
        self._line.send(None)
        asked: list[str] = self._line.recv()
        return Counter(f"{method} {kind_of_file(path)}" for method, path in (one.split(" ", 1) for one in asked))


@contextmanager
def slow_store(latency_ms: float) -> Iterator[SlowStore]:
    """The server as long as the block runs; its processor time is not that of this process."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    server = spawn.Process(target=_serve, args=(latency_ms / 1000, there), daemon=True)
    server.start()
    try:
        keys = {"s3.endpoint": here.recv(), "s3.access-key": "a", "s3.secret-key": "b", "s3.region": "us-east-1"}
        assert server.pid is not None
        yield SlowStore({**keys, "s3.path.style.access": "true"}, server.pid, here)
    finally:
        server.terminate()
        server.join()


def _serve(delay_s: float, line: Connection) -> None:
    with s3_server(page_size=1000) as server:
        server.delay_s = delay_s
        line.send(server.endpoint)
        while True:
            line.recv()
            asked, server.requests = server.requests, []
            line.send(asked)
