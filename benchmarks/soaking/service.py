"""The pipeline of the soak as a service: started again when it ends, killed at random, asked by commands."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from random import Random

import psutil

from tests.support.command import TIDEMARK
from tests.support.pipeline_run import kill, started

_ENDS_WITHIN_S = 60.0
"""How long the JVM and its workers may outlive the driver."""
_STOPS_WITHIN_S = 240.0
_COMMAND_S = 240.0


class Victim(StrEnum):
    """The target of a SIGKILL."""

    DRIVER = "driver"
    JVM = "JVM"
    WORKER = "worker"
    WORKERS = "all workers"
    ALL = "all processes"


@dataclass(slots=True)
class Command:
    """Commands one after the other, each repeated until it succeeds: the process that it asks may be killed."""

    lines: Sequence[Sequence[str]]
    _done: int = 0
    _process: subprocess.Popen[bytes] | None = None

    @property
    def is_done(self) -> bool:
        return self._done == len(self.lines)

    def poll(self) -> None:
        if self.is_done:
            return
        if self._process is None:
            self._process = subprocess.Popen(
                [*TIDEMARK, *self.lines[self._done]],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        elif (code := self._process.poll()) is not None:
            self._process = None
            self._done += code == 0

    def finish(self, meanwhile: Callable[[], None]) -> bool:
        """Wait for the end of all, within bounds; whether it came."""
        deadline_s = time.monotonic() + _COMMAND_S
        while not self.is_done and time.monotonic() < deadline_s:
            meanwhile()
            self.poll()
            time.sleep(0.1)
        return self.is_done

    def abandon(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def __str__(self) -> str:
        return "; ".join(f"tidemark {' '.join(line)}" for line in self.lines)


@dataclass(slots=True)
class Service:
    """One pipeline file, always running. Not thread safe; ``close`` ends the rest."""

    file: Path
    log: Path
    checkpoint: Path
    environment: Mapping[str, str]
    tell: Callable[[str], None]
    starts: list[float] = field(default_factory=list)
    """When each life began, in seconds since 1970."""
    left_behind: int = 0
    """Processes that continued after their driver had ended."""
    unasked_ends: list[int] = field(default_factory=list)
    """Exit codes of lives in which nothing was killed. With a local master a killed worker ends the service too."""
    _process: subprocess.Popen[bytes] | None = None
    _session: int = 0
    _is_hit: bool = False

    @property
    def life(self) -> int:
        """Counts starts of the process."""
        return len(self.starts)

    def poll(self) -> None:
        """Start it if it does not run."""
        if self._process is not None and self._process.poll() is None:
            return
        if self._process is not None:
            code = self._process.returncode
            self.tell(f"the service ended with {code}")
            if not self._is_hit:
                self.unasked_ends.append(code)
            self._wait_for_the_others()
        self._is_hit = False
        self.starts.append(time.time())
        self._process = started(self.file, self.log, self.environment)
        self._session = self._process.pid

    def closed_batches(self) -> int:
        """Batches that Spark has closed, over all lives."""
        with suppress(FileNotFoundError):
            names = os.listdir(self.checkpoint / "commits")
            return max((int(name) + 1 for name in names if name.isdigit()), default=0)
        return 0

    def processes(self) -> dict[str, list[psutil.Process]]:
        """Those of this life: ``driver``, ``jvm``, ``workers``."""
        found: dict[str, list[psutil.Process]] = {"driver": [], "jvm": [], "workers": []}
        if self._process is None:
            return found
        with suppress(psutil.NoSuchProcess):
            driver = psutil.Process(self._process.pid)
            found["driver"].append(driver)
            for child in driver.children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    found["jvm" if child.name() == "java" else "workers"].append(child)
        return found

    def kill(self, victim: Victim, random: Random) -> None:
        """SIGKILL at whatever step it is."""
        processes = self.processes()
        match victim:
            case Victim.DRIVER:
                hit = processes["driver"]
            case Victim.JVM:
                hit = processes["jvm"]
            case Victim.WORKER:
                hit = random.sample(processes["workers"], min(1, len(processes["workers"])))
            case Victim.WORKERS:
                hit = processes["workers"]
            case Victim.ALL:
                hit = [one for kind in processes.values() for one in kind]
        self._is_hit = self._is_hit or bool(hit)
        for process in hit:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.tell(f"killed: {victim} ({len(hit)} processes)")

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        if self._process is None:
            return 0
        self._process.terminate()
        try:
            code = self._process.wait(_STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.tell("the service did not stop in time")
            kill(self._process)
            code = -9
        self._wait_for_the_others()
        self._process = None
        return code

    def close(self) -> None:
        if self._process is not None:
            kill(self._process)

    def _wait_for_the_others(self) -> None:
        deadline_s = time.monotonic() + _ENDS_WITHIN_S
        while left := list(_in_session(self._session)):
            if time.monotonic() > deadline_s:
                self.left_behind += len(left)
                self.tell(f"processes that outlive their driver: {[process.name() for process in left]}")
                for process in left:
                    with suppress(psutil.NoSuchProcess):
                        process.kill()
                return
            time.sleep(0.1)


def _in_session(session: int) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, PermissionError, psutil.NoSuchProcess):
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                yield process
