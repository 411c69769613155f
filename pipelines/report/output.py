"""The output of a command, and the formats of its rows. The command line uses this module without Arrow."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import IO, Any, cast

from paimon_table.errors import Action, TidemarkError

SNAPSHOT_ID = "_snapshot_id"
"""Column of a changelog with the snapshot that has the change."""


class OutputFailed(TidemarkError):
    """Stdout does not take the output, for example because a disk is full."""

    action = Action.RETRY


class RowFormat(StrEnum):
    """Form of the output."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    VERTICAL = "vertical"


@contextmanager
def quiet_pipe() -> Iterator[None]:
    """Print inside this block: when the reader of the pipe has seen enough, the process ends with exit code 0."""
    try:
        yield
        checked_stdout().flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None


class _CheckedOutput:
    """A text stream that reports failures as failures of the output, not of the table's storage."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if text == "":  # click tests in this way for a text stream, and ignores a failure
            return 0
        with _told_as_output():
            return self._stream.write(text)

    def flush(self) -> None:
        with _told_as_output():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _told_as_output() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        with suppress(OSError):
            # The rest of the buffer would fail again at the end of the process.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OutputFailed(
            f"the output cannot be written ({error.strerror or error}); check its destination"
        ) from error


@contextmanager
def checked_output() -> Iterator[None]:
    """Whatever is printed inside this block fails as ``checked_stdout`` does."""
    plain, checked = sys.stdout, _CheckedOutput(sys.stdout)
    sys.stdout = cast("Any", checked)
    try:
        yield
    finally:
        if cast("Any", sys.stdout) is checked:  # click installs its own stream when the reader has gone
            sys.stdout = plain


def checked_stdout() -> IO[str]:
    return cast("IO[str]", _CheckedOutput(sys.stdout))
