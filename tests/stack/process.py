"""Server processes of the local stack: start, wait until ready, stop; their output is a file whose end errors show."""

import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.stack.paths import StackUnavailable
from tests.support.waiting import seconds

POLL_INTERVAL_S = 0.1
LOG_TAIL_LINES = 40
PR_SET_PDEATHSIG = 1
PORTS = range(12_000, 32_000)
"""Linux and macOS take ports from 32768 or 49152 on for connections that go out: those may be taken at any time."""
_marks: list[socket.socket] = []


def free_port(ports: range = PORTS) -> int:
    """Return a TCP port of 127.0.0.1 that nothing listens on, and that no other test process gets.

    The UDP port of the same number is the mark: it is bound until this process ends.
    """
    while True:
        port = random.SystemRandom().choice(ports)
        mark = socket.socket(type=socket.SOCK_DGRAM)
        with socket.socket() as probe, suppress(OSError):
            mark.bind(("127.0.0.1", port))
            probe.bind(("127.0.0.1", port))
            _marks.append(mark)
            return port
        mark.close()


def port_is_open(port: int) -> bool:
    """Say whether something accepts connections on 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class ServerProcess:
    """One child process in a session of its own, so that Ctrl-C reaches the test run only.

    On Linux it dies with the thread that started it, so that a killed test run leaves nothing behind: start servers
    from the main thread.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_file: Path,
        env: Mapping[str, str] | None = None,
        user_id: int | None = None,
        stop_signal: int = signal.SIGTERM,
    ) -> None:
        self.name = name
        self.command = tuple(command)
        self.log_file = log_file
        self.env = None if env is None else {**os.environ, **env}
        self.user_id = user_id
        self.stop_signal = stop_signal
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise StackUnavailable(f"{self.name} was not started")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, is_ready: Callable[[], bool], timeout_s: float) -> None:
        """Start the process and return once `is_ready` says so; raises with the log's end when it does not."""
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.env,
                cwd="/",
                start_new_session=True,
                preexec_fn=die_with_parent if sys.platform == "linux" else None,
                user=self.user_id,
                group=self.user_id,
                extra_groups=None if self.user_id is None else [],
            )
        try:
            self.wait_until(is_ready, timeout_s, "being ready")
        except BaseException:
            self.kill()
            raise

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Poll a condition; raises when the process ends or the time is over."""
        timeout_s = seconds(timeout_s)
        deadline = time.monotonic() + timeout_s
        while not condition():
            if not self.is_running:
                raise StackUnavailable(f"{self.name} ended before {what}.{self.log_tail()}")
            if time.monotonic() > deadline:
                raise StackUnavailable(f"{self.name}: {what} took more than {timeout_s:.0f} s.{self.log_tail()}")
            time.sleep(POLL_INTERVAL_S)

    def stop(self, timeout_s: float = 30) -> None:
        """Ask the process to end and wait for it; kill it when it does not."""
        if self._process is None:
            return
        if self.is_running:
            self._process.send_signal(self.stop_signal)
        try:
            self._process.wait(seconds(timeout_s))
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the process at once, as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def log_tail(self) -> str:
        """Return the end of the process's output, headed by the file's path."""
        lines = self.log_file.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return f" The end of {self.log_file}:\n" + "\n".join(lines)


def die_with_parent() -> None:
    """In a new process on Linux: it ends when the thread that started it ends, however that happens."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
