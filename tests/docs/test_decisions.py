"""Decisions are numbered: each number once, none left out, the heading as the file name says."""

from __future__ import annotations

from pathlib import Path

DECISIONS = Path(__file__).parents[2] / "docs" / "decisions"


def test_each_decision_has_a_number_of_its_own() -> None:
    files = sorted(DECISIONS.glob("*.md"))

    assert [int(file.name[:4]) for file in files] == [*range(1, len(files) + 1)]
    assert [file.name for file in files if not file.read_text().startswith(f"# {int(file.name[:4])}. ")] == []
