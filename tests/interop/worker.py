"""A helper process that answers one JSON line per request."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.waiting import seconds


class WorkerError(Exception):
    """The other implementation raised; the text is its message and stack trace."""


class Worker:
    """Owns the process; not thread safe. Requests run one after the other."""

    def __init__(self, name: str, command: Sequence[str | Path], cwd: Path) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [str(part) for part in command],
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def ask(self, command: str, arguments: dict[str, Any], **extra: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"command": command, "arguments": arguments, **extra}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError(f"{self.name} ended with exit code {self._process.wait()} during {command}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(f"{self.name}: {answer['error']}\n{answer['trace']}")
        return answer["ok"]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=seconds(30))
