"""docs/COLUMNS.md: every example there gives the table that stands below it, and what it says of types holds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from paimon_table.types import parse_type
from sources.expressions.expression import bound, parsed, result_type
from sources.expressions.rule_words import METADATA
from tests.docs.documents import page
from tests.docs.examples import Example, check_example, examples

TEXT = page("COLUMNS.md").read_text(encoding="utf-8")
EXAMPLES = examples("COLUMNS.md")


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.heading)
def test_an_example_gives_its_table(example: Example, tmp_path: Path) -> None:
    check_example(example, tmp_path, {"MASK_KEY": "the key of the page"})


def test_all_sections_with_a_pipeline_are_tried() -> None:
    assert len(EXAMPLES) == TEXT.count("```yaml")


def test_the_types_of_metadata_are_those_of_the_page() -> None:
    rows = re.findall(r"^\| (`\$.*?) \| ([^|]*) \|", TEXT, re.MULTILINE)
    told: dict[str, str] = {}
    for names, types in rows:
        listed, of_names = re.findall(r"\$(\w+)", names), types.split(", ")
        told |= dict(zip(listed, of_names if len(of_names) == len(listed) else of_names * len(listed), strict=True))
    found: dict[str, Any] = {name: result_type(bound(parsed(f"${name}"), {}), {}) for name in METADATA}
    assert told.pop("headers") == "MAP of STRING to STRING" and str(found.pop("headers")) == "MAP<STRING, STRING>"
    assert {name: str(parse_type(t)) for name, t in told.items()} == {name: str(t) for name, t in found.items()}


@pytest.mark.parametrize(
    "row", re.findall(r"^\| `(?:year|date_format|substring|truncate|cast|upper).*\|$", TEXT, re.MULTILINE)
)
def test_what_stands_for_functions_of_paimon_is_sql(row: str) -> None:
    cell = row.strip("|").split("|")[1]
    types = {name: parse_type(t) for name, t in {"v": "STRING", "c": "STRING"}.items()}
    for text in re.findall(r"`([^`]+)`", cell):
        for of_column in ("STRING", "BIGINT", "TIMESTAMP(3)"):
            try:
                result_type(bound(parsed(text), types), {**types, "c": parse_type(of_column)})
                break
            except ValueError as error:
                problem = error
        else:
            raise AssertionError(f"{text}: {problem}")
