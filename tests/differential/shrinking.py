"""Makes a history that shows a mismatch smaller, greedily: whole commits first, then rows, then full compactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.differential.history import Commit, History


def shrink(history: History, still_fails: Callable[[History], bool], tries: int = 120) -> History:
    """A smaller history for which ``still_fails`` holds too; asks at most ``tries`` times."""
    for _ in range(tries):
        smaller = next((h for h in _smaller(history) if (tries := tries - 1) >= 0 and still_fails(h)), None)
        if smaller is None:
            break
        history = smaller
    return history


def _smaller(history: History) -> Iterator[History]:
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
