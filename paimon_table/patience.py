"""The policy of all waits before a retry of a transient failure."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """Waits that double, from the first to the longest, until the retries or the time are used up."""

    first_wait_s: float
    max_wait_s: float
    retries: float = math.inf
    max_elapsed_s: float = math.inf

    def wait_s(self, failures: int, elapsed_s: float = 0.0) -> float | None:
        """The wait after this many consecutive failures, the first of which was ``elapsed_s`` ago; None at the end."""
        left_s = self.max_elapsed_s - elapsed_s
        if failures > self.retries or left_s <= 0:
            return None
        return min(self.first_wait_s * 2.0 ** min(failures - 1, 30), self.max_wait_s, left_s)
