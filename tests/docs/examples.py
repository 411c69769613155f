"""Examples of the documentation: a pipeline file, the records that it reads, and the table that comes of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_table.table import Table
from pipelines.config.config_file import load_pipeline
from pipelines.tables.tables import PipelineTables
from sources.changes import RECORD_SCHEMA
from tests.docs.documents import page
from tests.support.local_batches import reported_batches

_LINES = r"((?:(?!```)[^\n]*\n)*)"
_EXAMPLE = re.compile(rf"^```yaml\n{_LINES}```\n\n```json\n{_LINES}```\n\n((?:^\|[^\n]*\|\n)+)", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    heading: str
    file: str
    records: str
    table: str


def examples(name: str) -> list[Example]:
    """A pipeline file, records one a line, and a table, one right behind the other."""
    text = page(name).read_text(encoding="utf-8")
    found = []
    for match in _EXAMPLE.finditer(text):
        headings = re.findall(r"^## (.*)$", text[: match.start()], re.MULTILINE)
        found.append(Example(headings[-1], match[1], match[2], match[3]))
    return found


def raw(value: Any) -> bytes | None:
    return None if value is None else value.encode() if isinstance(value, str) else json.dumps(value).encode()


def batch_of(lines: str) -> pa.RecordBatch:
    rows = [json.loads(line) for line in lines.splitlines()]
    records = [
        {**row, "partition": 0, "offset": offset, "key": raw(row["key"]), "value": raw(row["value"])}
        for offset, row in enumerate(rows)
    ]
    return pa.RecordBatch.from_pylist(records, schema=RECORD_SCHEMA)


def cells(table: str) -> list[list[str]]:
    """Header and rows of a table in Markdown."""
    header, _, *rows = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.splitlines())
    return [header, *sorted(rows)]


def check_example(example: Example, root: Path, environment: Mapping[str, str] | None = None) -> None:
    """The records, one a batch, give the table, and none of them is bad."""
    (root / "shop.yaml").write_text(example.file)
    config = load_pipeline(root / "shop.yaml", environment or {})
    tables = PipelineTables(config, "tidemark-shop-test")

    parts = [batch_of(example.records).slice(at, 1) for at in range(len(example.records.splitlines()))]
    quarantine, _ = reported_batches(tables, parts, root, decoder=config.decoder)

    assert not Path(quarantine.path).exists()
    (sink,) = tables.sinks.values()
    stored = Table.open(sink.table.paths.root).to_arrow()
    rows = sorted(["NULL" if v is None else str(v) for v in row.values()] for row in stored.to_pylist())
    assert [stored.column_names, *rows] == cells(example.table)
