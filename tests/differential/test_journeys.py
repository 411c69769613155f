"""Tables that Tidemark and Java write in turns, with all that can happen to a table, hold what Java's own table holds.

Bucket modes: fixed, dynamic, postponed, and rows that move between partitions. Steps: commits, compactions, other
numbers of buckets, INSERT OVERWRITE, dropped partitions, tags, branches, rollbacks; rows that expire. Journeys of
a kind are about one thing each (``journey_kinds``), and pypaimon reads their tables too.

pytest tests/differential/test_journeys.py                                     a few seeds, as in CI
pytest tests/differential/test_journeys.py --journeys 500 --first-journey 42   many
pytest tests/differential/test_journeys.py --journey-kind schemas --journeys 50   many of one kind, or of "all" kinds
pytest tests/differential/test_journeys.py --journey FILE                      one that a failure printed
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.differential.journey import Journey, from_text
from tests.differential.journey_drawing import draw_journey
from tests.differential.journey_playing import Found, play
from tests.differential.kind_drawing import draw_kind
from tests.differential.shrinking import shrink, smaller_journeys
from tests.interop.java_paimon import JavaPaimon
from tests.interop.python_readers import PythonReaders

Check = Callable[[Journey, str], None]


@pytest.fixture
def check(java_process: JavaPaimon, python_process: PythonReaders, tmp_path: Path) -> Check:
    def played(one: Journey) -> Found | None:
        shutil.rmtree(tmp_path, ignore_errors=True)
        tmp_path.mkdir()
        return play(one, java_process, python_process, tmp_path)

    def checked(journey: Journey, replay: str) -> None:
        found = played(journey)
        if found is None:
            return

        def still_fails(one: Journey) -> bool:
            other = played(one)
            return other is not None and other.kind == found.kind

        small = shrink(journey, smaller_journeys, still_fails)
        pytest.fail(f"replay with: {replay}\n{found}\nshrunk to\n{small.text()}\n{played(small)}", pytrace=False)

    return checked


def test_both_continue_one_table(journey_seed: int, check: Check) -> None:
    check(draw_journey(journey_seed), f"--journeys 1 --first-journey {journey_seed}")


def test_both_continue_one_table_of_a_kind(kind: str, kind_seed: int, check: Check) -> None:
    check(draw_kind(kind, kind_seed), f"--journey-kind {kind} --journeys 1 --first-journey {kind_seed}")


def test_printed_journey(check: Check, request: pytest.FixtureRequest) -> None:
    path = request.config.getoption("journey")
    if path is None:
        pytest.skip("no --journey FILE")
    check(from_text(Path(path).read_text(encoding="utf-8")), f"--journey {path}")
