"""Whether a curve is flat: compares the last third of the time with the second.

The rule: the median of the last third is at most that of the second one, plus a share of it, plus a fixed amount. The
first third warms up. Curves of a process start over with each life of it. Each life with enough points is judged on its
own, and the worst one counts.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

LEAST_POINTS = 100
"""Fewer do not show whether a curve is flat: the start of a service is most of them."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much a curve may rise from one third of the time to the next."""

    share: float
    amount: float

    def limit(self, middle: float) -> float:
        return middle * (1 + self.share) + self.amount


@dataclass(frozen=True, slots=True)
class Verdict:
    """``is_flat`` is None where there are too few points to say."""

    series: str
    middle: float
    last: float
    limit: float
    is_flat: bool | None

    @property
    def excess(self) -> float:
        return self.last - self.limit


def judge(series: str, points: Sequence[tuple[int, float]], allowance: Allowance, *, by_life: bool) -> Verdict | None:
    """``points`` are (life, value) in the order of time; None where there are none."""
    if not points:
        return None
    lives = _lives(points) if by_life else [[value for _, value in points]]
    verdicts = [_of_one(series, values, allowance) for values in lives]
    known = [verdict for verdict in verdicts if verdict.is_flat is not None]
    return max(known or verdicts, key=lambda verdict: verdict.excess)


def _lives(points: Iterable[tuple[int, float]]) -> list[list[float]]:
    return [[value for _, value in life] for _, life in groupby(points, key=lambda point: point[0])]


def _of_one(series: str, values: Sequence[float], allowance: Allowance) -> Verdict:
    third = len(values) // 3
    middle, last = (statistics.median(part or values) for part in (values[third : 2 * third], values[2 * third :]))
    limit = allowance.limit(middle)
    return Verdict(series, middle, last, limit, last <= limit if len(values) >= LEAST_POINTS else None)
