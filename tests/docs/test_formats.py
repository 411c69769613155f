"""docs/FORMATS.md: every example there gives the table that stands below it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_table.table import Table
from pipelines.config.config_file import load_pipeline
from pipelines.tables.tables import PipelineTables
from sources.changes import RECORD_SCHEMA
from sources.formats import FORMATS
from tests.docs.documents import BINARY, blocks, page
from tests.docs.examples import Example, batch_of, cells, examples
from tests.support.local_batches import reported_batches

EXAMPLES = [example for example in examples("FORMATS.md") if example.heading not in BINARY]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.heading)
def test_an_example_gives_its_table(example: Example, tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(example.file)
    config = load_pipeline(tmp_path / "shop.yaml")
    tables = PipelineTables(config, "tidemark-shop-test")

    quarantine, _ = reported_batches(
        tables, [batch_of(example.records)], tmp_path, decoder=config.source.format.decoder
    )

    assert not Path(quarantine.path).exists()
    (sink,) = tables.sinks.values()
    stored = Table.open(sink.table.paths.root).to_arrow()
    rows = sorted(["NULL" if v is None else str(v) for v in row.values()] for row in stored.to_pylist())
    assert [stored.column_names, *rows] == cells(example.table)


PAGE = page("FORMATS.md")
FEEDS = [block.heading for block in blocks(PAGE, "jsonl")]
"""Sections that show rows as JSON."""


def texts(heading: str, language: str) -> list[str]:
    return [block.text for block in blocks(PAGE, language) if block.heading == heading]


@pytest.mark.parametrize("heading", FEEDS)
def test_an_example_gives_the_rows_that_it_shows(tmp_path: Path, heading: str) -> None:
    (pipeline,), (records,), (shown,) = (texts(heading, language) for language in ("yaml", "json", "jsonl"))
    file = tmp_path / "shop.yaml"
    file.write_text(pipeline.replace("/data/", f"{tmp_path}/"))
    config = load_pipeline(file, {})
    values = [
        {"topic": "shop", "partition": 0, "offset": offset, "timestamp": 0, "value": line.encode()}
        for offset, line in enumerate(records.splitlines())
    ]
    tables = PipelineTables(config, "tidemark-shop-test")

    batch = pa.RecordBatch.from_pylist(values, schema=RECORD_SCHEMA)
    quarantine, _ = reported_batches(tables, [batch], tmp_path, decoder=config.source.format.decoder)

    assert not Path(quarantine.path).exists()
    (sink,) = tables.sinks.values()
    rows = Table.open(sink.table.paths.root).to_arrow().to_pylist()
    found = [{name: None if value is None else str(value) for name, value in row.items()} for row in rows]
    assert sorted(found, key=str) == [json.loads(line) for line in shown.splitlines()]


def test_every_format_has_a_line_and_an_example() -> None:
    """Of formats whose records are bytes see ``test_avro_format``."""
    text = PAGE.read_text()
    assert {example.heading for example in EXAMPLES} | {*FEEDS, *BINARY} == {*FORMATS}
    assert [name for name in FORMATS if f"| [`{name}`](#{name}) |" not in text] == []
