"""Histories that the machine has found, each as short as it gets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.model.machine import ONE, PipelineMachine


@pytest.fixture
def machine() -> Iterator[PipelineMachine]:
    machine = PipelineMachine()
    machine.begin(partitions=1)
    yield machine
    machine.teardown()


def test_a_rebuild_does_not_wait_for_a_topic_that_is_gone(machine: PipelineMachine) -> None:
    """The table's position in it lies beyond what the new topic of its name holds."""
    machine.make_topic_anew(topic=ONE)
    machine.check_at_rest()
    machine.rebuild(table="lake.orders", meanwhile=[])
    machine.check_at_rest()


@pytest.mark.xfail(strict=True, reason="a new checkpoint does not fill tables of rules with backfill")
def test_a_new_table_is_filled_under_a_new_checkpoint(machine: PipelineMachine) -> None:
    machine.lose_checkpoint()
    machine._fill_another_table()
    machine.check_at_rest()
