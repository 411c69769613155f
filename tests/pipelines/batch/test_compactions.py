"""Work beside the query: in order, waited for, and never failing in silence."""

from __future__ import annotations

import threading
import time

import pytest

from pipelines.batch.compactions import Compactions
from tests.support.waiting import seconds


def test_work_runs_beside_the_caller_and_in_order() -> None:
    compactions = Compactions()
    may_go_on = threading.Event()
    done: list[int] = []

    def first() -> int:
        may_go_on.wait(seconds(10))
        time.sleep(0.02)
        done.append(1)
        return 7

    number = compactions.start(first)
    compactions.start(lambda: done.append(2))
    was_busy = compactions.is_busy
    assert was_busy and done == []
    may_go_on.set()
    compactions.wait()
    assert done == [1, 2] and number.result() == 7
    assert not compactions.is_busy
    compactions.wait()


def test_a_failure_is_told_to_who_waits_and_to_who_asks() -> None:
    compactions = Compactions()
    may_fail = threading.Event()

    def failing() -> None:
        may_fail.wait(seconds(10))
        raise OSError("no space left")

    compactions.start(failing)
    compactions.raise_failure()
    may_fail.set()
    for _ in range(2):
        with pytest.raises(OSError, match="no space left"):
            compactions.wait()
        with pytest.raises(OSError, match="no space left"):
            compactions.raise_failure()
