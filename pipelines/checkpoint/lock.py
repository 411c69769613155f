"""One run at a time per checkpoint: a lock that lives as long as the process that holds it.

The system gives the lock up when the process ends, however it ends, so the file of a killed run stops nobody. It goes
for local checkpoints; on object storage Spark itself notices the second writer.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

from paimon_table.errors import SinkUnavailable
from paimon_table.storage.file_io import LocalFileIO
from pipelines.checkpoint.checkpoint import NOT_AS_WRITTEN
from pipelines.config.config import PipelineConfig
from pipelines.storage import storage_of

log = logging.getLogger(__name__)

FILE = "tidemark.lock"

TRIES = 3
TRY_WAIT_S = 0.2
"""Somebody who only looks whether the lock is held (``holder_of``) has it for a moment."""

UNKNOWN = "perhaps another process (object storage has no lock)"


@contextmanager
def held_checkpoints(configs: Sequence[PipelineConfig]) -> Iterator[None]:
    """Hold the checkpoints of all pipelines; SinkUnavailable names the process that holds one of them already."""
    with ExitStack() as stack:
        for config in configs:
            io, path = storage_of(config, config.checkpoint)
            if isinstance(io, LocalFileIO):
                stack.enter_context(_held(config, path))
        yield


def holder_of(config: PipelineConfig) -> str | None:
    """Who runs the pipeline, in words; None when nobody does. On object storage nobody knows: ``UNKNOWN``."""
    io, path = storage_of(config, config.checkpoint)
    if not isinstance(io, LocalFileIO):
        return UNKNOWN
    try:
        descriptor = os.open(f"{path}/{FILE}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _who(os.pread(descriptor, 1000, 0))
    except OSError:
        return UNKNOWN
    finally:
        os.close(descriptor)
    return None


@contextmanager
def _held(config: PipelineConfig, directory: str) -> Iterator[None]:
    os.makedirs(directory, exist_ok=True)
    descriptor = os.open(f"{directory}/{FILE}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    try:
        try:
            _lock(descriptor)
        except BlockingIOError as error:
            raise SinkUnavailable(_taken(config, os.pread(descriptor, 1000, 0))) from error
        except OSError as error:
            log.warning(
                "%s: no lock on checkpoint %s (%s): take care that only one run uses it",
                config.name,
                config.checkpoint,
                error.strerror,
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(_me()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    for left in reversed(range(TRIES)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if not left:
                raise
            time.sleep(TRY_WAIT_S)


def _me() -> Mapping[str, str | int]:
    since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since}


def _taken(config: PipelineConfig, content: bytes) -> str:
    return (
        f"pipeline {config.name}: checkpoint {config.checkpoint} is in use by {_who(content)}; only one run at a time"
        " can use it: wait for its end, or stop it"
    )


def _who(content: bytes) -> str:
    try:
        holder = json.loads(content)
        return f"process {holder['pid']} on {holder['host']} (since {holder['since']})"
    except NOT_AS_WRITTEN:
        return "another process"
