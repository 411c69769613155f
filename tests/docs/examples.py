"""Examples of the documentation: a pipeline file, the records that it reads, and the table that comes of them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sources.changes import RECORD_SCHEMA
from tests.docs.documents import page

_EXAMPLE = re.compile(r"^```yaml\n(.*?)^```\n\n```json\n(.*?)^```\n\n((?:^\|[^\n]*\|\n)+)", re.MULTILINE | re.DOTALL)


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
