"""Crash points: named places where a test may kill the whole process, as a power cut would.

``TIDEMARK_CRASH_AT=<point>[@<batch id>]`` kills the process that reaches the point, its driver and its workers with
SIGKILL. If it is unset, a crash point costs one look at the environment.
"""

from __future__ import annotations

import os
import signal

CRASH_VARIABLE = "TIDEMARK_CRASH_AT"
DRIVER_VARIABLE = "TIDEMARK_CRASH_GROUP"

POINTS = (
    "before-decode",
    "after-decode",
    "between-data-files",
    "after-write",
    "before-append",
    "after-append",
    "between-compactions",
    "after-compact",
)
"""The steps of a batch, in order; work alongside the stream has its own steps."""


def is_wanted() -> bool:
    """Whether a test asks for a crash. In that case, tables are written in turn, so that each crash meets the same
    state."""
    return bool(os.environ.get(CRASH_VARIABLE))


def reached(point: str, batch_id: int) -> None:
    """Mark that ``point`` of batch ``batch_id`` is reached; never returns if a test asks for a crash here."""
    wanted = os.environ.get(CRASH_VARIABLE)
    if not wanted:
        return
    name, _, batch = wanted.partition("@")
    if name != point or (batch and int(batch) != batch_id):
        return
    driver_group = os.environ.get(DRIVER_VARIABLE)
    if driver_group and int(driver_group) != os.getpgrp():
        os.killpg(int(driver_group), signal.SIGKILL)
    os.killpg(os.getpgrp(), signal.SIGKILL)
