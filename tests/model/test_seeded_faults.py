"""The machine sees what goes wrong: it fails on each of these histories once a rule of the product is broken."""

from __future__ import annotations

import pytest

from paimon_table.errors import TidemarkError
from tests.model.machine import PipelineMachine
from tests.model.seeded_faults import FAULTS, SeededFault


def played(fault: SeededFault) -> None:
    machine = PipelineMachine()
    try:
        machine.begin(partitions=1)
        fault.history(machine)
    finally:
        machine.teardown()


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_seeded_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    played(FAULTS[name])

    FAULTS[name].patch(monkeypatch)
    with pytest.raises((AssertionError, TidemarkError), match="table lake"):
        played(FAULTS[name])
