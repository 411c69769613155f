"""Signals that reach `tidemark run` while Python still imports modules: it never ends without a message.

A service manager may send them at any time. This module imports nothing that takes long.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

_hung_up = False


def hold_signals() -> None:
    """Record SIGHUP for later, and end normally on SIGTERM, until the run handles both itself."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, _note)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)


def was_hung_up() -> bool:
    """Whether SIGHUP arrived: files that were already read may have changed since."""
    return _hung_up


def _note(_number: int, _frame: FrameType | None) -> None:
    global _hung_up
    _hung_up = True


def _end(_number: int, _frame: FrameType | None) -> None:
    """Nothing has begun, so there is nothing to finish."""
    sys.stderr.write("tidemark: stopped (SIGTERM) before anything had begun\n")
    sys.stderr.flush()
    os._exit(0)
