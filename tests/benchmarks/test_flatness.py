"""Which curves count as flat."""

from __future__ import annotations

import pytest

from benchmarks.flatness import Allowance, judge

ALLOWED = Allowance(share=0.1, amount=5)


def _points(*values: float, life: int = 1) -> list[tuple[int, float]]:
    """Each value forty times."""
    return [(life, value) for value in values for _ in range(40)]


@pytest.mark.parametrize(
    ("values", "is_flat"),
    [((0, 100, 100), True), ((0, 100, 115), True), ((0, 100, 116), False), ((500, 100, 50), True)],
)
def test_the_last_third_is_held_against_the_second(values: tuple[float, ...], is_flat: bool) -> None:
    verdict = judge("curve", _points(*values), ALLOWED, by_life=False)

    assert verdict is not None
    assert (verdict.middle, verdict.last) == values[1:]
    assert round(verdict.limit, 6) == 115
    assert verdict.is_flat is is_flat


def test_a_steady_rise_is_not_flat() -> None:
    verdict = judge("leak", [(1, float(at)) for at in range(300)], ALLOWED, by_life=False)

    assert verdict is not None and verdict.is_flat is False


def test_the_worst_life_that_is_long_enough_counts() -> None:
    short, good, bad = [(1, 0.0), (1, 900.0)], _points(10, 100, 100, life=2), _points(10, 100, 200, life=3)

    verdict = judge("curve", short + good + bad + _points(10, 50, 50, life=4), ALLOWED, by_life=True)

    assert verdict is not None and (verdict.last, verdict.is_flat) == (200, False)
    assert judge("curve", short + good, ALLOWED, by_life=True) is not None
    assert judge("curve", short + good, ALLOWED, by_life=True).is_flat is True  # type: ignore[union-attr]


def test_few_points_say_nothing() -> None:
    verdict = judge("curve", [(1, 1.0), (1, 900.0)], ALLOWED, by_life=True)

    assert verdict is not None and verdict.is_flat is None
    assert judge("curve", [], ALLOWED, by_life=False) is None
