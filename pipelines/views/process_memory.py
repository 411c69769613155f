"""Memory and open files of this process, its JVM and the Python workers below that, from Linux' ``/proc``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

_PROC = "/proc"


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """The memory of one kind of process."""

    resident_bytes: int
    """Memory in use, summed; pages that forked workers share count once per worker."""
    open_files: int
    processes: int


def memory_by_kind(pid: int | None = None, proc: str = _PROC) -> Mapping[str, ProcessUse]:
    """``driver``, ``jvm`` and ``workers`` as far as they run on this machine; empty if there is no ``/proc``."""
    driver = os.getpid() if pid is None else pid
    kinds: dict[str, list[int]] = {"driver": [driver]}
    for child in _children(driver, proc):
        if _name(child, proc) == "java":
            kinds.setdefault("jvm", []).append(child)
            kinds.setdefault("workers", []).extend(_below(child, proc))
    found = {}
    for kind, pids in kinds.items():
        uses = [use for one in pids if (use := _use(one, proc)) is not None]
        if uses:
            found[kind] = ProcessUse(sum(r for r, _ in uses), sum(f for _, f in uses), len(uses))
    return found


def started_ticks(pid: int, proc: str = _PROC) -> int | None:
    """When the process with this number started, in ticks since the start of the machine; None if there is none."""
    with suppress(OSError, ValueError, IndexError), open(f"{proc}/{pid}/stat", encoding="utf-8", errors="replace") as f:
        return int(f.read().rpartition(")")[2].split()[19])
    return None


def _below(pid: int, proc: str) -> Iterator[int]:
    for child in _children(pid, proc):
        yield child
        yield from _below(child, proc)


def _children(pid: int, proc: str) -> list[int]:
    """Every thread lists the processes that it has started."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"{proc}/{pid}/task"):
            with suppress(OSError), open(f"{proc}/{pid}/task/{thread}/children", encoding="ascii") as children:
                found += map(int, children.read().split())
    return found


def _name(pid: int, proc: str) -> str:
    with suppress(OSError), open(f"{proc}/{pid}/comm", encoding="utf-8", errors="replace") as name:
        return name.read().strip()
    return ""


def _use(pid: int, proc: str) -> tuple[int, int] | None:
    try:
        with open(f"{proc}/{pid}/statm", encoding="ascii") as sizes:
            pages = int(sizes.read().split()[1])
        files = len(os.listdir(f"{proc}/{pid}/fd"))
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE"), files
