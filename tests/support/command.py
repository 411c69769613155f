"""Run the command line: inside this process, or the way a user does, as a process of its own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from datetime import datetime
from pathlib import Path

import pytest

from pipelines.cli import main
from tests.support.waiting import seconds

TIDEMARK = (sys.executable, "-m", "tidemark")
Done = subprocess.CompletedProcess[str]


def undated(line: str) -> str:
    """A message of a run without its date and time, which it must have."""
    moment, text = line[:19], line[20:]
    datetime.strptime(moment, "%Y-%m-%d %H:%M:%S")
    return text


def tidemark(*arguments: str | Path) -> Done:
    """Exit code and both outputs of one command, run inside this process."""
    words = [str(argument) for argument in arguments]
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err, pytest.raises(SystemExit) as end:
        main(words)
    code = end.value.code
    return Done(words, code if isinstance(code, int) else 0, out.getvalue(), err.getvalue())


def tidemark_process(*arguments: str | Path, **environment: str) -> Done:
    """The same in a process (and a group) of its own, with variables added to its environment."""
    return subprocess.run(
        [*TIDEMARK, *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=seconds(120),
        start_new_session=True,
        check=False,
    )
