"""Makes what shows a mismatch smaller, greedily: whole commits or steps first, then rows, then full compactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from tests.differential.history import Commit, History
from tests.differential.journey import Journey, Overwrite, RollBack, Step, Write

T = TypeVar("T")


def shrink(one: T, smaller: Callable[[T], Iterator[T]], still_fails: Callable[[T], bool], tries: int = 80) -> T:
    """What is ``smaller`` and for which ``still_fails`` holds too; asks at most ``tries`` times."""
    for _ in range(tries):
        found = next((other for other in smaller(one) if (tries := tries - 1) >= 0 and still_fails(other)), None)
        if found is None:
            break
        one = found
    return one


def smaller_histories(history: History) -> Iterator[History]:
    commits = history.commits
    for i in reversed(range(len(commits))):
        if len(commits) > 1:
            yield history.with_commits(commits[:i] + commits[i + 1 :])
    for i, commit in enumerate(commits):
        for j in reversed(range(len(commit.rows))):
            rows = commit.rows[:j] + commit.rows[j + 1 :]
            if rows:
                yield history.with_commits(_replaced(commits, i, replace(commit, rows=rows)))
        if commit.full_compact and commit.rows:
            yield history.with_commits(_replaced(commits, i, replace(commit, full_compact=False)))


def _replaced(commits: tuple[Commit, ...], position: int, commit: Commit) -> tuple[Commit, ...]:
    return (*commits[:position], commit, *commits[position + 1 :])


def smaller_journeys(journey: Journey) -> Iterator[Journey]:
    """Without a step, or a row; rollbacks go to the same steps as before."""
    steps = journey.steps
    for i in reversed(range(len(steps))):
        yield journey.with_steps((*steps[:i], *(_renumbered(step, i + 1) for step in steps[i + 1 :])))
    for i, step in enumerate(steps):
        if isinstance(step, Write | Overwrite) and len(step.rows) > 1:
            for j in reversed(range(len(step.rows))):
                fewer = replace(step, rows=step.rows[:j] + step.rows[j + 1 :])
                yield journey.with_steps((*steps[:i], fewer, *steps[i + 1 :]))


def _renumbered(step: Step, gone: int) -> Step:
    return replace(step, step=step.step - 1) if isinstance(step, RollBack) and step.step >= gone else step
