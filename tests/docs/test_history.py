"""docs/HISTORY.md: every example there gives the table that stands below it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.documents import page
from tests.docs.examples import Example, check_example, examples

EXAMPLES = examples("HISTORY.md")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.heading)
def test_an_example_gives_its_table(example: Example, tmp_path: Path) -> None:
    check_example(example, tmp_path)


def test_all_sections_with_a_pipeline_are_tried() -> None:
    assert len(EXAMPLES) == page("HISTORY.md").read_text(encoding="utf-8").count("```yaml")
