"""The token of the page: from the pipeline file, or created at the start, in a file that only this user can read."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pipelines.config.config import PipelineConfig
from pipelines.http.state_file import state_path

_BYTES = 24


@contextmanager
def page_token(config: PipelineConfig) -> Iterator[tuple[str, str]]:
    """The token, and its place in words; its file is removed when the run ends."""
    if config.ui is not None and config.ui.token is not None:
        yield config.ui.token, "its token is ui.token of the pipeline file"
        return
    token, path = secrets.token_urlsafe(_BYTES), token_path(config)
    if not path.parent.is_dir():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="ascii") as out:
        out.write(token + "\n")
    try:
        yield token, f"its token is in {path}"
    finally:
        with suppress(OSError):
            path.unlink()


def token_path(config: PipelineConfig) -> Path:
    """Next to the state file of the pipeline."""
    state = state_path(config)
    return state.with_name("ui-token") if state.name == "state.json" else state.with_suffix(".ui-token")
