"""docs/COLUMNS.md: every example there gives the table that stands below it, and what it says of types holds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from paimon_table.table import Table
from paimon_table.types import parse_type
from pipelines.config.config_file import load_pipeline
from pipelines.tables.tables import PipelineTables
from sources.expressions.expression import bound, parsed, result_type
from sources.expressions.rule_words import METADATA
from tests.docs.documents import page
from tests.docs.examples import Example, batch_of, cells, examples
from tests.support.local_batches import reported_batches

TEXT = page("COLUMNS.md").read_text(encoding="utf-8")
EXAMPLES = examples("COLUMNS.md")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.heading)
def test_an_example_gives_its_table(example: Example, tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(example.file)
    config = load_pipeline(tmp_path / "shop.yaml", {"MASK_KEY": "the key of the page"})
    tables = PipelineTables(config, "tidemark-shop-test")

    parts = [batch_of(example.records).slice(at, 1) for at in range(len(example.records.splitlines()))]
    quarantine, _ = reported_batches(tables, parts, tmp_path, decoder=config.decoder)

    assert not Path(quarantine.path).exists()
    (sink,) = tables.sinks.values()
    stored = Table.open(sink.table.paths.root).to_arrow()
    rows = sorted(["NULL" if v is None else str(v) for v in row.values()] for row in stored.to_pylist())
    assert [stored.column_names, *rows] == cells(example.table)


def test_all_sections_with_a_pipeline_are_tried() -> None:
    assert len(EXAMPLES) == TEXT.count("```yaml")


def test_the_types_of_metadata_are_those_of_the_page() -> None:
    rows = re.findall(r"^\| (`\$.*?) \| ([^|]*) \|", TEXT, re.MULTILINE)
    told: dict[str, str] = {}
    for names, types in rows:
        listed, of_names = re.findall(r"\$(\w+)", names), types.split(", ")
        told |= dict(zip(listed, of_names if len(of_names) == len(listed) else of_names * len(listed), strict=True))
    found: dict[str, Any] = {name: result_type(bound(parsed(f"${name}"), ()), {}) for name in METADATA}
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
