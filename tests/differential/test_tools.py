"""The parts of the differential test that need no Java: drawing, printing, comparing and shrinking histories."""

from dataclasses import replace
from typing import get_args

import pytest

from tests.differential.comparison import compare
from tests.differential.drawing import COMBINATIONS, draw_history
from tests.differential.history import Commit, History, from_text
from tests.differential.journey import Step
from tests.differential.journey import from_text as journey_from_text
from tests.differential.journey_kinds import KINDS
from tests.differential.kind_drawing import draw_kind
from tests.differential.outcome import CommitOutcome, Rows, changes_of, failed
from tests.differential.shrinking import shrink, smaller_histories

HISTORY = History(
    columns=(("k", "INT"), ("a", "ARRAY<INT>")),
    primary_key=("k",),
    options={"changelog-producer": "full-compaction"},
    commits=(Commit((("+I", 1, [2, 1]), ("-D", 2, None))), Commit((("+U", 1, []),), True), Commit((), True)),
    unordered=("a",),
)


def _outcome(rows: Rows, levels: tuple[tuple[int, int], ...] = (), java_reads: Rows | None = None) -> CommitOutcome:
    content = {"tidemark": rows, "java": rows if java_reads is None else java_reads}
    return CommitOutcome(content, {"tidemark": {}, "java": {}}, levels)


def test_history_is_read_back_from_its_text() -> None:
    assert from_text(HISTORY.text()) == HISTORY
    assert from_text(HISTORY.with_commits(()).text()) == HISTORY.with_commits(())


def test_a_seed_gives_the_same_history_again_and_every_combination_comes_up() -> None:
    count = len(COMBINATIONS)
    histories = [draw_history(seed) for seed in range(3 * count)]
    assert histories == [draw_history(seed) for seed in range(3 * count)]
    assert {(h.engine, h.producer) for h in histories} == set(COMBINATIONS)
    assert any(not h.primary_key for h in histories)


@pytest.mark.slow
def test_journeys_are_read_back_from_their_texts_and_take_every_step() -> None:
    journeys = [draw_kind(kind, seed) for kind in KINDS for seed in range(30)]
    assert journeys == [draw_kind(kind, seed) for kind in KINDS for seed in range(30)]
    assert [journey_from_text(journey.text()) for journey in journeys] == journeys
    taken = {(journey.kind, type(step)) for journey in journeys for step in journey.steps}
    assert {step for _, step in taken} == set(get_args(Step))
    rows = [row for journey in journeys if journey.kind == "places" for row in journey.rows]
    assert {None, "", "a/b", "😀", "z" * 200} <= {row[1] for row in rows}


def test_changes_are_compared_per_key_and_free_orders_are_equal() -> None:
    one = changes_of(HISTORY, [("-U", 1, [1, 2]), ("+I", 2, None), ("+U", 1, [3])])
    other = changes_of(HISTORY, [("+I", 2, None), ("-U", 1, [2, 1]), ("+U", 1, [3])])
    swapped = changes_of(HISTORY, [("+I", 2, None), ("+U", 1, [3]), ("-U", 1, [2, 1])])
    assert one == other != swapped


@pytest.mark.parametrize(
    ("theirs", "aspect"),
    [
        ([_outcome([[1, None]]), _outcome([[1, 9]])], "content"),
        ([_outcome([[1, None]]), _outcome([[1, 2]], java_reads=[])], "content"),
        ([_outcome([[1, None]]), failed("refused")], "error"),
        ([_outcome([[1, None]])], "error"),
    ],
)
def test_difference_in_the_second_commit_is_found(theirs: list[CommitOutcome], aspect: str) -> None:
    verdict = compare(HISTORY, [_outcome([[1, None]]), _outcome([[1, 2]])], theirs)
    assert verdict.mismatch is not None
    assert (verdict.mismatch.commit, verdict.mismatch.aspect) == (2, aspect)


def test_outcomes_after_different_compactions_are_not_compared_where_that_matters() -> None:
    ours, theirs = [_outcome([[1, 2]], ((0, 1),))], [_outcome([[1, 9]], ((5, 1),))]
    assert compare(HISTORY, ours, theirs).compared == 0
    free = replace(HISTORY, options={"merge-engine": "first-row"})
    assert compare(free, ours, theirs).mismatch is not None


def test_history_shrinks_to_what_still_fails() -> None:
    history = HISTORY.with_commits((*HISTORY.commits, Commit((("+I", 3, None), ("+I", 4, None)))))
    small = shrink(history, smaller_histories, lambda h: any(row[1] == 4 for row in h.rows))
    assert small.commits == (Commit((("+I", 4, None),)),)
