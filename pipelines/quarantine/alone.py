"""One at a time takes records out of a quarantine: files are written anew without them, whole."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from paimon_table.errors import SinkUnavailable
from paimon_table.storage.file_io import LocalFileIO
from pipelines.bad_records.bad_lines import BadLines

_LOCK = "retry.lock"


@contextmanager
def alone(bad: BadLines) -> Iterator[None]:
    """Hold the quarantine; SinkUnavailable while somebody else does. On object storage nobody can tell."""
    if not isinstance(bad.io, LocalFileIO):
        yield
        return
    bad.io.mkdirs(bad.path)
    descriptor = os.open(f"{bad.path}/{_LOCK}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SinkUnavailable(f"another retry or drop works on {bad.location}: wait for its end") from error
        yield
    finally:
        os.close(descriptor)
