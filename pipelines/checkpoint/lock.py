"""One process at a time per checkpoint: a lock that lives as long as the process that holds it.

The system releases the lock however the process ends, so a killed run blocks no other. The lock works for local
checkpoints; on object storage Spark itself detects the second writer.

Runs have priority over commands. A run that finds a command at work locks a second file and waits. The command checks
that file between two slices (``is_wanted``), releases the checkpoint, and continues as a guest of the run.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from paimon_table.errors import SinkUnavailable
from paimon_table.storage.file_io import LocalFileIO
from pipelines.checkpoint.checkpoint import NOT_AS_WRITTEN
from pipelines.config.config import PipelineConfig
from pipelines.storage import storage_of

log = logging.getLogger(__name__)

FILE = "tidemark.lock"

NEXT_FILE = "tidemark.next"
"""Locked by a run that waits for a command to give the checkpoint up."""

TRIES = 3
TRY_WAIT_S = 0.2
"""A process that only checks whether the lock is held (``holder_of``) has it for a moment."""

LOOK_S = 0.1
"""Between two looks of a run that waits."""

STILL_S = 30.0
"""How often it says so."""

RUNS = "runs the pipeline"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a checkpoint, and for what; its text is the process in words."""

    who: str
    doing: str = RUNS
    """As in: process 1, which runs the pipeline."""
    yields: bool = False
    """Whether it gives the checkpoint to a run between two slices."""

    @property
    def is_run(self) -> bool:
        return self.doing == RUNS

    def __str__(self) -> str:
        return self.who


UNKNOWN = Holder("possibly another process (object storage has no lock)")


@contextmanager
def held_checkpoints(configs: Sequence[PipelineConfig], doing: str = RUNS, *, yields: bool = False) -> Iterator[None]:
    """Hold the checkpoints of all pipelines; SinkUnavailable names the process that already holds a checkpoint.

    Who ``yields`` looks at ``is_wanted`` from time to time.
    """
    with ExitStack() as stack:
        for config in configs:
            io, path = storage_of(config, config.checkpoint)
            if isinstance(io, LocalFileIO):
                stack.enter_context(_held(config, path, doing, yields))
        yield


@contextmanager
def run_comes_first(configs: Sequence[PipelineConfig], is_stopped: Callable[[], bool]) -> Iterator[bool]:
    """Wait until commands that hold the checkpoints have given them up, and keep them free for the length of the block.

    False once ``is_stopped``. Who holds a checkpoint without yielding it is left for ``held_checkpoints`` to refuse.
    """
    with ExitStack() as stack:
        yield all(_given_up(config, is_stopped, stack) for config in configs)


def _given_up(config: PipelineConfig, is_stopped: Callable[[], bool], stack: ExitStack) -> bool:
    holder, said_s = holder_of(config), 0.0
    if holder is None or not holder.yields:
        return True
    _, path = storage_of(config, config.checkpoint)
    stack.enter_context(_held(config, path, f"waits for {holder}", False, NEXT_FILE))
    began_s = time.monotonic()
    while holder is not None and holder.yields:
        if is_stopped():
            return False
        if time.monotonic() - began_s >= said_s:
            said_s += STILL_S
            log.info(
                "%s: waits for %s, which %s; it finishes its slice, then hands the checkpoint over to this run",
                config.name,
                holder,
                holder.doing,
            )
        time.sleep(LOOK_S)
        holder = holder_of(config)
    return True


def is_wanted(config: PipelineConfig) -> bool:
    """Whether a run waits for the checkpoint, which some command holds."""
    return _holder_in(config, NEXT_FILE) not in (None, UNKNOWN)


def holder_of(config: PipelineConfig) -> Holder | None:
    """The holder of a pipeline's checkpoint; None if it is free. On object storage it cannot be known: ``UNKNOWN``."""
    return _holder_in(config, FILE)


def runner_of(config: PipelineConfig) -> Holder | None:
    """Who runs the pipeline and takes requests: a command that holds the checkpoint does not."""
    holder = holder_of(config)
    return holder if holder is not None and holder.is_run else None


def _holder_in(config: PipelineConfig, file: str) -> Holder | None:
    io, path = storage_of(config, config.checkpoint)
    if not isinstance(io, LocalFileIO):
        return UNKNOWN
    try:
        descriptor = os.open(f"{path}/{file}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(os.pread(descriptor, 1000, 0))
    except OSError:
        return UNKNOWN
    finally:
        os.close(descriptor)
    return None


@contextmanager
def _held(config: PipelineConfig, directory: str, doing: str, yields: bool, file: str = FILE) -> Iterator[None]:
    os.makedirs(directory, exist_ok=True)
    descriptor = os.open(f"{directory}/{file}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    try:
        try:
            _lock(descriptor)
        except BlockingIOError as error:
            raise SinkUnavailable(_taken(config, os.pread(descriptor, 1000, 0))) from error
        except OSError as error:
            log.warning(
                "%s: no lock on checkpoint %s (%s): make sure that only one run uses it",
                config.name,
                config.checkpoint,
                error.strerror,
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(_me(doing, yields)).encode(), 0)
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


def _me(doing: str, yields: bool) -> Mapping[str, str | int | bool]:
    since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since, "doing": doing, "yields": yields}


def _taken(config: PipelineConfig, content: bytes) -> str:
    holder = _holder(content)
    return (
        f"pipeline {config.name}: checkpoint {config.checkpoint} is in use by {holder}, which {holder.doing}. Only one "
        f"process at a time can use it: wait until it ends, or stop it"
    )


def _holder(content: bytes) -> Holder:
    try:
        found = json.loads(content)
        who = f"process {found['pid']} on {found['host']} (since {found['since']})"
        return Holder(who, str(found["doing"]), found["yields"] is True)
    except NOT_AS_WRITTEN:
        return Holder("another process")
