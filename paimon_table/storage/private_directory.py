"""Local directories that no other user of the machine can read, write or replace.

Below a parent such as ``/tmp`` each user has one root, ``tidemark-UID``. Below the root each process, or group of
processes, has a directory named by its process and start, next to ``NAME.lock``. A process holds the lock of its
directory until it ends, even by a crash. The next start removes directories whose lock is free.

The content can be trusted, even pickles: the root belongs to this user, is closed to others and is not a link. The same
applies to all parents of the root, unless a sticky bit protects them.
"""

from __future__ import annotations

import atexit
import fcntl
import logging
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import IO

from paimon_table.errors import ConfigError, SinkUnavailable

log = logging.getLogger(__name__)

_PREFIX = "tidemark-"
_LOCK = ".lock"
_ROOT_ID = 0
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class SharedDirectory:
    """A private directory that the workers of one Spark application share on a machine.

    The machine is not known in advance: ``path`` creates and checks the directory there.
    """

    parent: str
    name: str

    def path(self) -> str:
        return _held(self.parent, self.name)


def process_directory(parent: str) -> str:
    """The private directory of this process below ``parent``, removed when the process ends.

    Raises ConfigError if other users could tamper with every possible place.
    """
    return _of_process(parent, os.getpid())


@cache
def _of_process(parent: str, pid: int) -> str:
    directory = _held(parent, f"{pid}-{time.time_ns() // 1_000_000}")
    atexit.register(_remove, directory, pid)
    return directory


@cache
def _held(parent: str, name: str) -> str:
    root = private_root(parent)
    _remove_abandoned(root)
    directory = f"{root}/{name}"
    while not _is_locked(f"{directory}{_LOCK}"):
        pass
    ensure_private(directory)
    with suppress(OSError):  # a file system without locks on directories
        # systemd-tmpfiles keeps the content of a locked directory, however old it is.
        fcntl.flock(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), fcntl.LOCK_SH)
    return directory


def _is_locked(path: str) -> bool:
    """Hold the lock until the process ends; False if another process removed the file at that moment."""
    lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_SH)
    if os.fstat(lock).st_nlink:
        return True
    os.close(lock)
    return False


def _remove_abandoned(root: str) -> None:
    """Remove directories whose lock is free. Unreferenced: a process holds the lock of its directory until it ends."""
    for name in os.listdir(root):
        if name.endswith(_LOCK):
            with suppress(FileNotFoundError, BlockingIOError), open(f"{root}/{name}", "rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(f"{root}/{name.removesuffix(_LOCK)}")


def _remove(directory: str, of_pid: int | None = None) -> None:
    if of_pid in (None, os.getpid()):
        shutil.rmtree(directory, ignore_errors=True)
        with suppress(FileNotFoundError):
            os.remove(f"{directory}{_LOCK}")


@cache
def private_root(parent: str) -> str:
    """This user's directory below ``parent``; a new one, with a warning, if the usual one is not private."""
    parent = _trusted_parent(parent)
    root = f"{parent}/{_PREFIX}{os.geteuid()}"
    with suppress(FileExistsError):
        os.mkdir(root, 0o700)
    problem = _exposure(root)
    if problem is None:
        return root
    fresh = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.geteuid()}-", dir=parent)
    atexit.register(_remove, fresh, os.getpid())
    log.warning("%s %s, so Tidemark uses %s instead; remove it if nothing needs it", root, problem, fresh)
    return fresh


def _trusted_parent(parent: str) -> str:
    """``parent`` without links, else the system's directory for temporary files."""
    system = tempfile.gettempdir()
    os.makedirs(parent, 0o755, exist_ok=True)
    problems: list[str] = []
    for directory in dict.fromkeys([os.path.realpath(parent), os.path.realpath(system)]):
        problem = _weakness(directory)
        if problem is None:
            if problems:
                log.warning("%s: local files go to %s instead", problems[0], directory)
            return directory
        problems.append(problem)
    raise ConfigError(
        f"local files would not be safe from other users: {'; '.join(problems)}. Set spark.local.dir to a directory "
        "that others cannot write"
    )


def _weakness(directory: str) -> str | None:
    """Why another user could rename the content of ``directory``; None if none can."""
    path = directory
    while True:
        status = os.stat(path)
        writers = stat.S_IWOTH | (0 if status.st_gid in (_ROOT_ID, os.getegid()) else stat.S_IWGRP)
        if status.st_uid not in (_ROOT_ID, os.geteuid(), _unmapped_uid()):
            return f"{path} belongs to user {status.st_uid}"
        if status.st_mode & writers and not status.st_mode & stat.S_ISVTX:
            return f"{path} can be written by other users and has no sticky bit"
        if path == os.path.dirname(path):
            return None
        path = os.path.dirname(path)


@cache
def _unmapped_uid() -> int:
    """The id of all users outside of this container, if it has its own users."""
    with suppress(OSError, ValueError), open("/proc/self/uid_map", "rb") as mapping:
        if int(mapping.readline().split()[2]) < (1 << 32) - 1:
            with open("/proc/sys/kernel/overflowuid", "rb") as overflow:
                return int(overflow.read())
    return _ROOT_ID


def _exposure(directory: str) -> str | None:
    """Why ``directory`` itself is not private; None if it is."""
    status = os.lstat(directory)
    if not stat.S_ISDIR(status.st_mode):
        return "is a link" if stat.S_ISLNK(status.st_mode) else "is not a directory"
    if status.st_uid != os.geteuid():
        return f"belongs to user {status.st_uid}"
    return f"is open to others (mode {stat.S_IMODE(status.st_mode):04o})" if status.st_mode & _OTHERS else None


def ensure_private(directory: str) -> None:
    """Create ``directory`` and its missing parents, closed to others.

    Below the root of a user, checks all directories up to the root, existing ones included. Raises SinkUnavailable if a
    directory is not private.
    """
    for path in reversed(_own_levels(directory)):
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
        problem = _exposure(path)
        if problem is not None:
            raise SinkUnavailable(
                f"{path} {problem}, so Tidemark does not use it; remove it and start again, or set spark.local.dir to "
                "a directory that others cannot write"
            )


def _own_levels(directory: str) -> list[str]:
    """``directory`` and its parents: up to the user's root, or without a root up to the first existing one."""
    own = f"{_PREFIX}{os.geteuid()}"
    levels = [directory]
    while os.path.dirname(levels[-1]) != levels[-1]:
        if os.path.basename(levels[-1]) == own or os.path.basename(levels[-1]).startswith(f"{own}-"):
            return levels
        levels.append(os.path.dirname(levels[-1]))
    return [directory, *(level for level in levels[1:] if not os.path.lexists(level))]


def make_file(path: str) -> None:
    """Create an empty file that others cannot read, whatever the umask; recreates its directory if that was removed."""
    try:
        _make_file(path)
    except FileNotFoundError:
        ensure_private(os.path.dirname(path))
        _make_file(path)


def _make_file(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def open_own(path: str) -> IO[bytes]:
    """Open a file for reading. Raises SinkUnavailable if another user may have written it."""
    file = open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")  # noqa: SIM115 - the caller's
    status = os.fstat(file.fileno())
    if status.st_uid == os.geteuid() and stat.S_ISREG(status.st_mode) and not status.st_mode & _OTHERS:
        return file
    file.close()
    raise SinkUnavailable(f"{path} may have been written by another user, so it is not read; start again")
