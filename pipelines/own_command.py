"""How this process was started, so that commands suggested to the user work when they are copied."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path


def own_command(
    started_as: str | None = None, python: str = sys.executable, which: Callable[[str], str | None] = shutil.which
) -> str:
    """``tidemark`` if the PATH leads to this command, else the typed command, else ``python -m tidemark``."""
    typed = Path(sys.argv[0] if started_as is None else started_as)
    if typed.name != "tidemark" or not typed.is_file():
        return f"{'python' if which('python') == python else _shell_word(python)} -m tidemark"
    on_path = which("tidemark")
    if on_path is not None and os.path.samefile(on_path, typed):
        return "tidemark"
    return _shell_word(str(typed))


def short_path(location: str) -> str:
    """A directory below the working directory as a relative path, anything else as it is; quoted for the shell."""
    here = Path.cwd()
    path = Path(location)
    return shlex.quote(str(path.relative_to(here)) if path.is_absolute() and path.is_relative_to(here) else location)


def _shell_word(path: str) -> str:
    word = short_path(path)
    return word if "/" in word else f"./{word}"
