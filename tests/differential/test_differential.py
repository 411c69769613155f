"""Random histories give equal tables and equal changelogs, written by Tidemark or by Java Paimon, read by either.

pytest tests/differential                                 a few seeds, as in CI
pytest tests/differential --seeds 1000 --first-seed 42    many
pytest tests/differential --history FILE                  one that a failure printed
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.differential.comparison import Mismatch, Verdict, compare
from tests.differential.differences import DIFFERENCES, Difference, explanation_of
from tests.differential.drawing import draw_history
from tests.differential.history import History, from_text
from tests.differential.playing import Player
from tests.differential.shrinking import shrink, smaller_histories

RecordProperty = Callable[[str, object], None]


def test_tidemark_and_java_agree(seed: int, player: Player, record_property: RecordProperty) -> None:
    _check(draw_history(seed), player, record_property, f"pytest tests/differential --seeds 1 --first-seed {seed}")


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda d: d.name)
def test_listed_difference_is_still_there(difference: Difference, player: Player) -> None:
    assert _verdict(difference.example, player).mismatch is not None, f"no longer differs: {difference.why}"


def test_printed_history(player: Player, request: pytest.FixtureRequest, record_property: RecordProperty) -> None:
    path = request.config.getoption("history")
    if path is None:
        pytest.skip("no --history FILE")
    _check(from_text(Path(path).read_text(encoding="utf-8")), player, record_property, f"--history {path}")


def _check(history: History, player: Player, record_property: RecordProperty, replay: str) -> None:
    verdict = _verdict(history, player)
    record_property("commits", len(history.commits))
    record_property("compared", verdict.compared)
    if verdict.mismatch is None:
        return
    known = explanation_of(history, verdict.mismatch)
    if known is not None:
        record_property("difference", known.name)
        return
    small = shrink(history, smaller_histories, lambda h: _is_unexplained(h, player))
    shown = _verdict(small, player).mismatch
    pytest.fail(f"replay with: {replay}\n{verdict.mismatch}\nshrunk to\n{small.text()}\n{shown}", pytrace=False)


def _verdict(history: History, player: Player) -> Verdict:
    ours = player.by_tidemark(history)
    return compare(history, ours, player.by_java(history))


def _is_unexplained(history: History, player: Player) -> bool:
    found: Mismatch | None = _verdict(history, player).mismatch
    return found is not None and explanation_of(history, found) is None
