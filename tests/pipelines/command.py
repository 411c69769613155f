"""Run the command line the way a user does: as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TIDEMARK = (sys.executable, "-m", "pipelines.cli")


def tidemark(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Exit code and both outputs of one command; variables are added to the environment."""
    return subprocess.run(
        [*TIDEMARK, *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
