"""Signals that come before a run takes them itself."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import seconds

_HELD = """
import sys
from pipelines.early_signals import hold_signals, was_hung_up
hold_signals()
print("held", flush=True)
sys.stdin.read()
print(was_hung_up())
"""


def _signalled(number: int) -> tuple[int, str, str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _HELD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    process.send_signal(number)
    out, errors = process.communicate(timeout=seconds(30))
    return process.returncode, out, errors


@pytest.mark.slow
def test_a_hangup_is_noted_for_later() -> None:
    assert _signalled(signal.SIGHUP) == (0, "True\n", "")


def test_a_stop_before_anything_has_begun_is_a_clean_one() -> None:
    code, out, errors = _signalled(signal.SIGTERM)
    assert (code, out) == (0, "") and "before anything had begun" in errors


@pytest.mark.slow
def test_a_start_that_is_hung_up_lives(tmp_path: Path) -> None:
    """It fails for the file, which is not there, and not of the signal."""
    command = [sys.executable, "-X", "importtime", "-m", "tidemark", "run", str(tmp_path / "none.yaml")]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stderr is not None
    while b" typer" not in (line := process.stderr.readline()):
        assert line, "it has ended"
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=seconds(60))
    assert process.returncode == 2
