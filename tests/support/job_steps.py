"""An observer of a job that does something between its steps."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Steps:
    """Calls ``at`` with the number of each stretch of rows that is done."""

    at: Callable[[int], None]
    count: itertools.count[int] = field(default_factory=itertools.count)

    def begin(self, step: str, count: int, unit: str = "rows") -> None: ...

    def advance(self, count: int) -> None:
        self.at(next(self.count))
