"""Turns are given in the order in which they were asked for."""

from __future__ import annotations

import threading

from pipelines.control.turns import Turns
from tests.support.pipeline_run import wait_until
from tests.support.waiting import seconds


def test_turns_are_given_in_order_and_to_one_at_a_time() -> None:
    turns, order = Turns(), list[int]()

    def work(number: int) -> None:
        with turns.turn():
            order.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(5)]
    with turns.turn() as is_mine:
        assert is_mine
        for count, thread in enumerate(threads, 2):
            thread.start()
            wait_until(lambda count=count: len(turns._waiting) == count, 5, "queueing")  # type: ignore[misc]
        assert order == []
    for thread in threads:
        thread.join(seconds(5))

    assert order == [0, 1, 2, 3, 4]
    assert not turns.is_taken


def test_who_gives_up_waiting_gets_no_turn_and_keeps_nobody_waiting() -> None:
    turns = Turns()
    got: list[bool] = []

    def gives_up() -> None:
        with turns.turn(lambda: False) as is_mine:
            got.append(is_mine)

    with turns.turn():
        thread = threading.Thread(target=gives_up)
        thread.start()
        thread.join(seconds(5))
    with turns.turn() as is_mine:
        got.append(is_mine)

    assert got == [False, True]
