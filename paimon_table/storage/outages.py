"""Failures of a storage: transient ones, and the remedies for the others."""

from __future__ import annotations

import builtins
import errno
import os
import re

from paimon_table.errors import WHERE_MORE, MachineFailure, Outage, SinkUnavailable
from paimon_table.storage.s3_errors import NO_LOGIN

_PASSING = frozenset(
    (
        errno.EAGAIN,
        errno.EBUSY,
        errno.EINTR,
        errno.ESTALE,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENETRESET,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EREMOTEIO,
    )
)
"""In addition to errors with Python classes: timeouts, and refused or lost connections."""

_OF_STORES = re.compile(
    r"AWS Error (?:NETWORK_CONNECTION|SLOW_DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|THROTTLING|REQUEST_TIMEOUT)"
    r"|HTTP status (?:5\d\d|429)"
)
"""Arrow's errors if an object store does not answer, or asks to slow down."""

_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_OF_THE_MACHINE = frozenset((errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EROFS))

_REMEDIES = {
    errno.ENOSPC: "free some space there, then start again",
    errno.EDQUOT: "free some space there or raise the quota, then start again",
    errno.EROFS: "the file system is read-only: find out why (often after disk errors), then start again",
    errno.ENOTDIR: "a file has the name of a directory of this path: check what it is, and move it away",
    errno.EACCES: "this user lacks permission: start as the owner of the files, or grant this user access",
    errno.EMFILE: "raise the limit of open files (ulimit -n), then start again",
}
_LOGIN_REMEDY = (
    "set s3.access-key and s3.secret-key under catalog.options, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the "
    "environment"
)
_OTHER_REMEDY = "check the path, the access, the free space and the connection"


def storage_failure(error: OSError, what: str | None = None) -> SinkUnavailable:
    """The error for users: an Outage if a retry may succeed without any other action, a MachineFailure if
    no table can be written."""
    # The error's text has the path, which contains partitions; in Arrow's errors even ``strerror`` has it.
    words = os.strerror(error.errno) if error.errno else type(error).__name__
    if passes(error):
        what = what or "storage does not answer as expected"
        return Outage(f"{what}: {error}").without_values(f"{what}: {words}; {WHERE_MORE}")
    remedy = _LOGIN_REMEDY if NO_LOGIN in str(error) else _REMEDIES.get(_number(error))
    what = what or ("storage cannot be read or written" if remedy else "storage does not answer as expected")
    remedy = remedy or _OTHER_REMEDY
    kind = MachineFailure if is_of_machine(error) else SinkUnavailable
    return kind(f"{what}: {error}; {remedy}").without_values(f"{what}: {words}; {remedy}")


def local_failure(what: str, directory: object, needs: str, error: OSError) -> SinkUnavailable:
    """The error for a local file that cannot be written: a MachineFailure if it concerns every table."""
    number = _number(error)
    text = f"{what} cannot be written to {directory} ({os.strerror(number) if number else error}); {needs}"
    if number in _NO_ROOM:
        return MachineFailure(
            f"{text}: free some space there, or set another directory (spark.local.dir), then start again"
        ).without_values()
    return SinkUnavailable(text)


def told_failure(kind: str, message: str) -> SinkUnavailable | None:
    """``storage_failure`` for the name of a built-in class and its text; None if it is not a failure of storage."""
    found = getattr(builtins, kind, None)
    if not isinstance(found, type) or not issubclass(found, OSError):
        return None
    error: OSError = found(message)
    error.errno = _number(error) or None
    return storage_failure(error)


def passes(error: OSError) -> bool:
    """Whether the failure is transient: the storage is throttled, restarted or not reachable."""
    is_of_kind = isinstance(error, TimeoutError | ConnectionError) or _number(error) in _PASSING
    return is_of_kind or _OF_STORES.search(str(error)) is not None


def is_of_machine(error: OSError) -> bool:
    """Whether memory, open files or disk space ran out, or the file system has become read-only."""
    return _number(error) in _OF_THE_MACHINE


def _number(error: OSError) -> int:
    """The system's error number, which libraries leave in the text; 0 without a number."""
    if error.errno is not None:
        return error.errno
    found = re.search(r"\[[Ee]rrno (\d+)\]", str(error))
    return int(found[1]) if found else 0
