"""One process of a user at a time fetches Spark's packages, because two at once damage Ivy's cache.

A file in the cache says that all packages of a list were fetched; from then on no process waits. Emptying the cache
removes the file too. If there is no place for the file, such as in a read-only home, nothing is locked.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import pwd
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

log = logging.getLogger(__name__)

_PACKAGES = "spark.jars.packages"
_DIRECTORY = "spark.jars.ivy"
_DEFAULT_DIRECTORY = ".ivy2.5.2"
"""Below the home of the user, as Spark 4 has it."""

_POLL_S = 0.2
MOST_WAIT_S = 600.0
"""How long a process waits for another one's downloads before it tries by itself."""


@contextmanager
def fetching(properties: Mapping[str, str], home: str | None = None, wait_s: float = MOST_WAIT_S) -> Iterator[None]:
    """Hold off other processes while the JVM starts with these properties, if it may have packages to fetch.

    ``home`` is the home of a user whom the system does not know. A block without an exception has fetched the packages.
    """
    packages = properties.get(_PACKAGES)
    if not packages:
        yield
        return
    cache = f"{_ivy_directory(properties, home)}/cache"
    done = f"{cache}/tidemark-{hashlib.sha256(packages.encode()).hexdigest()[:16]}.fetched"
    if os.path.exists(done):
        yield
        return
    try:
        os.makedirs(cache, exist_ok=True)
        descriptor = os.open(f"{cache}/tidemark.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        _wait(descriptor, packages, wait_s)
        yield
        with suppress(OSError):
            os.close(os.open(done, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    finally:
        os.close(descriptor)


def _ivy_directory(properties: Mapping[str, str], home: str | None) -> str:
    given = properties.get(_DIRECTORY, "").strip()
    return given or f"{home or pwd.getpwuid(os.geteuid()).pw_dir}/{_DEFAULT_DIRECTORY}"


def _wait(descriptor: int, packages: str, wait_s: float) -> None:
    """Until the lock is ours, or the time is over, or the file system has no locks."""
    ends = time.monotonic() + wait_s
    is_told = False
    while time.monotonic() < ends:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not is_told:
                log.info("waiting for another process that downloads %s", packages)
                is_told = True
            time.sleep(_POLL_S)
        except OSError:
            return
        else:
            if not is_told:
                log.info(
                    "downloading %s and their dependencies from a Maven repository, once for this user; this can "
                    "take minutes",
                    packages,
                )
            return
    log.warning("another process has been fetching %s for %.0f s; not waiting any longer", packages, wait_s)
