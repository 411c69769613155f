"""Times are added up per step, and a step inside another one counts for the outer one."""

import time

import pytest

from paimon_table.step_times import take_seconds, timed


@timed("inner")
def inner() -> None:
    time.sleep(0.02)


@timed("outer")
def outer() -> None:
    inner()


@timed("failing")
def failing() -> None:
    raise ValueError


def test_calls_add_up_and_nested_ones_belong_to_the_outer_step() -> None:
    take_seconds()
    outer()
    inner()
    inner()
    taken = take_seconds()
    assert set(taken) == {"outer", "inner"}
    assert taken["outer"] >= 0.02 and taken["inner"] >= 0.04
    assert take_seconds() == {}


def test_a_step_that_fails_does_not_swallow_the_next() -> None:
    take_seconds()
    with pytest.raises(ValueError):
        failing()
    inner()
    assert set(take_seconds()) == {"failing", "inner"}
