"""Ports for servers of tests."""

from tests.stack.process import PORTS, free_port


def test_a_port_that_was_given_is_not_given_again() -> None:
    few = range(PORTS[0] - 60, PORTS[0])

    assert len({free_port(few) for _ in range(25)}) == 25
