"""Tables that Tidemark and Java write in turns, with all that can happen to a table, hold what Java's own table holds.

Bucket modes: fixed, dynamic, postponed, and rows that move between partitions. Steps: commits, compactions, other
numbers of buckets, INSERT OVERWRITE, dropped partitions, tags, branches, rollbacks; rows that expire.

pytest tests/differential/test_journeys.py                                     a few seeds, as in CI
pytest tests/differential/test_journeys.py --journeys 500 --first-journey 42   many
pytest tests/differential/test_journeys.py --journey FILE                      one that a failure printed
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.differential.journey import Journey, from_text
from tests.differential.journey_drawing import draw_journey
from tests.differential.journey_playing import Found, play
from tests.differential.shrinking import shrink, smaller_journeys
from tests.interop.java_paimon import JavaPaimon


def test_both_continue_one_table(journey_seed: int, java_process: JavaPaimon, tmp_path: Path) -> None:
    _check(draw_journey(journey_seed), java_process, tmp_path, f"--journeys 1 --first-journey {journey_seed}")


def test_printed_journey(java_process: JavaPaimon, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = request.config.getoption("journey")
    if path is None:
        pytest.skip("no --journey FILE")
    _check(from_text(Path(path).read_text(encoding="utf-8")), java_process, tmp_path, f"--journey {path}")


def _check(journey: Journey, java: JavaPaimon, directory: Path, replay: str) -> None:
    def played(one: Journey) -> Found | None:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        return play(one, java, directory)

    found = played(journey)
    if found is None:
        return

    def still_fails(one: Journey) -> bool:
        other = played(one)
        return other is not None and other.kind == found.kind

    small = shrink(journey, smaller_journeys, still_fails)
    pytest.fail(f"replay with: {replay}\n{found}\nshrunk to\n{small.text()}\n{played(small)}", pytrace=False)
