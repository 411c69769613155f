"""How long tests wait for other processes: as long as a quiet machine of two cores needs, times a factor.

The factor is measured once when the tests start, by the time that a child process takes to start Python and import
pyarrow. It follows the later load. ``TIDEMARK_TEST_PATIENCE`` sets it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import cache

_QUIET_START_S = 0.6
"""The time of the measurement on an idle machine."""
_MOST = 10.0
_MEASURED = "TIDEMARK_TEST_START_FACTOR"


def seconds(on_a_quiet_machine: float) -> float:
    """A time limit that holds on this machine as it is now."""
    given = os.environ.get("TIDEMARK_TEST_PATIENCE")
    factor = float(given) if given else max(_at_start(), _load())
    return on_a_quiet_machine * min(_MOST, max(1.0, factor))


@cache
def _at_start() -> float:
    if _MEASURED not in os.environ:  # the workers of a run get it from the process that starts them
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import pyarrow.compute"], check=True)
        os.environ[_MEASURED] = f"{(time.perf_counter() - started) / _QUIET_START_S:.2f}"
    return float(os.environ[_MEASURED])


def _load() -> float:
    """Processes that want to run per core, over the last minute."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)
