"""The cost of a system while it works: time, processor time, memory and written bytes of its whole process tree.

The broker runs beside the measured process and does not count. Linux only: memory and written bytes are read in /proc.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.peaks import process_use

POLL_S = 0.1
LISTING_S = 0.5
"""How old a list of processes may be: finding them costs processor time that the measured ones would have."""

LOG_TAIL_LINES = 30


class SystemFailed(Exception):
    """A system did not bring the events into its table; the text says where its log is."""


@dataclass(frozen=True, slots=True)
class TreeUse:
    """The use of a process and all its descendants, including ended ones."""

    cpu_s: float
    memory_bytes: int
    """Memory that belongs to the processes alone, at this moment."""
    written_bytes: int
    """To disks, through the page cache; writes into sockets and pipes do not count."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The progress of a system at a moment after its start, and its use of the machine."""

    at_s: float
    events: int
    use: TreeUse


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a run until all events are in the table: the stop of a process is no part of a service.

    Its second half begins at the commit that is nearest to half of the events.
    Of a reader the ``half`` is the median of its reads but the first, and its events are the rows of one read.
    """

    seconds: float
    """From the start of the process, so with the start of its JVM, until all events are in the table."""
    cpu_s: float
    half_events: int
    half_seconds: float
    half_cpu_s: float
    peak_memory_bytes: int
    written_bytes: int

    def to_json(self) -> dict[str, Any]:
        """As plain numbers."""
        return asdict(self)

    @property
    def events_per_s(self) -> float:
        """In the second half."""
        return self.half_events / self.half_seconds

    @property
    def cpu_s_per_million(self) -> float:
        """In the second half."""
        return self.half_cpu_s / self.half_events * 1e6


def cost_of(samples: Sequence[Sample], event_count: int) -> Cost:
    """Judge a run by its samples; it ends with the first that has all events, or with the last one.

    If no commit is near the half, as with a single one, the whole run counts. Memory and written bytes are those of all
    samples.
    """
    last = next((one for one in samples if one.events >= event_count), samples[-1])
    half = min(
        (one for one in samples if one.at_s < last.at_s and 0.25 <= one.events / event_count <= 0.75),
        key=lambda one: abs(one.events - event_count / 2),
        default=Sample(0.0, 0, TreeUse(0.0, 0, 0)),
    )
    return Cost(
        seconds=last.at_s,
        cpu_s=last.use.cpu_s,
        half_events=event_count - half.events,
        half_seconds=last.at_s - half.at_s,
        half_cpu_s=last.use.cpu_s - half.use.cpu_s,
        peak_memory_bytes=max(one.use.memory_bytes for one in samples),
        written_bytes=samples[-1].use.written_bytes,
    )


def measured(
    command: Sequence[str],
    environment: Mapping[str, str],
    log_file: Path,
    events_done: Callable[[], int],
    is_over: Callable[[], bool],
    timeout_s: float,
) -> list[Sample]:
    """Run a command until it ends, and look at it until it ends or says that its work is over.

    SystemFailed if its exit code is not 0 or the time is over.
    """
    with _started(command, environment, log_file) as process:
        samples = _samples(process, events_done, is_over, timeout_s, log_file)
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise SystemFailed(f"it has not ended {timeout_s:.0f} s after its work.{_tail(log_file)}") from None
        if code != 0:
            raise SystemFailed(f"it ended with exit code {code}.{_tail(log_file)}")
    return samples


def _samples(
    process: subprocess.Popen[bytes],
    events_done: Callable[[], int],
    is_over: Callable[[], bool],
    timeout_s: float,
    log_file: Path,
) -> list[Sample]:
    started = time.perf_counter()
    tree = ProcessTree(process.pid)
    samples = [Sample(0.0, 0, tree.use())]
    while True:
        is_end = _has_ended(process.pid) or is_over()
        use, now = tree.use(), time.perf_counter() - started
        samples.append(Sample(now, events_done(), use))
        if is_end:
            return samples
        if now > timeout_s:
            raise SystemFailed(f"it has not done all events in {timeout_s:.0f} s.{_tail(log_file)}")
        time.sleep(POLL_S)


def _has_ended(pid: int) -> bool:
    """Whether a child has ended; it stays a zombie, whose numbers can still be read."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


class ProcessTree:
    """A process and its descendants. The use of an ended one counts too."""

    def __init__(self, pid: int) -> None:
        self._top = psutil.Process(pid)
        self._processes: Sequence[psutil.Process] = ()
        self._listed_at = -LISTING_S
        self._last = TreeUse(0.0, 0, 0)

    def use(self) -> TreeUse:
        """Look at all of them."""
        now = time.monotonic()
        if now - self._listed_at >= LISTING_S:
            self._processes, self._listed_at = _tree(self._top), now
        cpu_s, written_bytes, memory_bytes = 0.0, 0, 0
        for process in self._processes:
            with suppress(psutil.Error, OSError):
                times = process.cpu_times()
                cpu_s += times.user + times.system + times.children_user + times.children_system
                written_bytes += process.io_counters().write_bytes
                memory_bytes += process_use(process.pid).own_bytes
        # The kernel adds the numbers of a process that ends to those of its parent, unless that one ended before.
        last = self._last
        self._last = TreeUse(max(cpu_s, last.cpu_s), memory_bytes, max(written_bytes, last.written_bytes))
        return self._last


def _tree(top: psutil.Process) -> Sequence[psutil.Process]:
    try:
        return (top, *top.children(recursive=True))
    except psutil.Error:
        return (top,)


@contextmanager
def _started(
    command: Sequence[str], environment: Mapping[str, str], log_file: Path
) -> Iterator[subprocess.Popen[bytes]]:
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            command,
            env=dict(environment),
            cwd=log_file.parent,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the rest of a process tree."""
    if process.returncode is None:
        for one in reversed(_tree(psutil.Process(process.pid))):
            with suppress(psutil.Error):
                one.kill()
        process.wait()


def _tail(log_file: Path) -> str:
    lines = log_file.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
    return f" The end of {log_file}:\n" + "\n".join(lines)
