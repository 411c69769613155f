"""The examples of docs/FORMATS.md: the pipeline file and the records of a section give the rows that it shows."""

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
from tests.docs.documents import blocks, page
from tests.support.local_batches import reported_batches

PAGE = page("FORMATS.md")
SECTIONS = [block.heading for block in blocks(PAGE, "jsonl")]


def texts(heading: str, language: str) -> list[str]:
    return [block.text for block in blocks(PAGE, language) if block.heading == heading]


@pytest.mark.parametrize("heading", SECTIONS)
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


def test_the_page_has_a_section_for_each_format() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in FORMATS if f"| `{name}` |" not in text] == []
    assert {*SECTIONS} >= {"canal-json", "maxwell-json", "ogg-json", "dms-json"}
