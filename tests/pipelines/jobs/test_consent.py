"""The question before something goes: a terminal is asked, nobody else, and --yes answers it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import typer

from paimon_table.errors import ConfigError
from pipelines.jobs.consent import confirm


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Where somebody types what arrives on the standard input, a terminal."""
    typed, arrives = os.openpty()
    with os.fdopen(arrives) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        yield typed
    os.close(typed)


def test_yes_on_the_terminal_goes_on(keyboard: int, capsys: pytest.CaptureFixture[str]) -> None:
    os.write(keyboard, b"y\n")
    confirm("Drop them?", yes=False)
    assert "Drop them? [y/N]" in "".join(capsys.readouterr())


@pytest.mark.parametrize("answer", [b"n\n", b"\n"])
def test_another_answer_ends_the_command(keyboard: int, answer: bytes) -> None:
    os.write(keyboard, answer)
    with pytest.raises(typer.Abort):
        confirm("Drop them?", yes=False)


def test_nobody_is_asked_who_is_not_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as nobody:
        monkeypatch.setattr("sys.stdin", nobody)
        with pytest.raises(
            ConfigError,
            match="this command cannot ask for confirmation without a terminal; nothing was dropped: add --yes",
        ):
            confirm("Drop them?", yes=False, done="dropped")
        confirm("Drop them?", yes=True)
