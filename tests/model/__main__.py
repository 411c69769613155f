"""Let pipelines live through histories for as long as wanted: ``python -m tests.model --seconds 3600 --seed 7``.

Each seed stands for ``--examples`` histories of ``--steps`` steps at most, and the next seed follows. The same seed
draws the same histories. A failure is minimised, printed with its steps, and ends the run with exit code 1;
``--keep-going`` goes on with the next seed. To play a history again put its steps below ``state.begin(...)`` in a test.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import PipelineMachine
from tests.model.seeded_faults import FAULTS


def lived_through(number: int, examples: int, steps: int, *, minimises: bool = True) -> None:
    """Play the histories of one seed; raises what the first one fails with.

    Without a data base of earlier failures: a seed means the same on every machine.
    """
    machine = seed(number)(type("PipelineMachine", (PipelineMachine,), {}))
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink) if minimises else (Phase.generate,),
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="no seed begins after this time")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--examples", type=int, default=50, help="histories of each seed")
    parser.add_argument("--steps", type=int, default=30, help="steps of each history, at most")
    parser.add_argument("--as-found", action="store_true", help="print failures as they are found, not minimised")
    parser.add_argument("--fault", choices=list(FAULTS), help="break this rule of the product, which is to be found")
    parser.add_argument("--keep-going", action="store_true", help="continue after a failure")
    given = parser.parse_args()
    if given.fault is not None:
        FAULTS[given.fault].patch(pytest.MonkeyPatch())
    end_s, number, failed = time.monotonic() + given.seconds, given.seed, list[int]()
    while time.monotonic() < end_s and (given.keep_going or not failed):
        try:
            lived_through(number, given.examples, given.steps, minimises=not given.as_found)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            failed.append(number)
            traceback.print_exc(limit=-4)
        print(f"seed {number}: {'failed' if number in failed else 'right'}", flush=True)
        number += 1
    print(f"{number - given.seed} seeds, failed: {failed or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
