"""A pipeline file with a quarantine, and bad records in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from paimon_table.ids import Offset
from paimon_table.storage.file_io import LocalFileIO
from sinks.quarantine import Quarantine
from sources.changes import QuarantineRow

YAML = """\
version: 1
name: shop
source: {{ files: {{ path: {root}/dumps }}, format: debezium-json }}
checkpoint: {root}/checkpoint
catalog: {{ warehouse: {root}/warehouse }}
tables:
  - match: {{ table: '(.*)' }}
    into: 'lake.{{table}}'
    columns: {{ types: {{ n: INT }} }}
    options: {options}
"""

QUERY = "11111111-2222-3333-4444-555555555555"


def write_pipeline(root: Path, options: Mapping[str, str] | None = None) -> Path:
    """A pipeline named shop, below ``root``, that makes a table ``lake.TABLE`` of each source table."""
    (root / "dumps").mkdir(parents=True, exist_ok=True)
    file = root / "shop.yaml"
    file.write_text(YAML.format(root=root, options=json.dumps({"bucket": "1", **(options or {})})))
    return file


def quarantine(root: Path, owner: str = QUERY) -> Quarantine:
    return Quarantine(LocalFileIO(private=True), f"{root}/checkpoint-quarantine/{owner}")


def checkpoint(root: Path, closed_batch: int) -> None:
    """What Spark leaves of a checkpoint whose batches are done up to this one."""
    for directory in ("offsets", "commits"):
        (root / "checkpoint" / directory).mkdir(parents=True, exist_ok=True)
        (root / "checkpoint" / directory / str(closed_batch)).write_text("v1\n{}\n{}")
    (root / "checkpoint" / "metadata").write_text(json.dumps({"id": QUERY}))


def bad(
    offset: int, reason: str = "it is broken", topic: str = "shop.public.orders", value: bytes | None = b"?"
) -> QuarantineRow:
    """A bad record of partition 0, one second after the other."""
    return QuarantineRow(topic, 0, Offset(offset), 1_700_000_000_000 + offset * 1000, reason, b'{"id":1}', value)


def envelope(key: int, n: Any, **more: Any) -> bytes:
    """The insert of a row of orders."""
    after = {"id": key, "n": n, **more}
    source = {"db": "shop", "schema": "public", "table": "orders"}
    return json.dumps({"before": None, "after": after, "source": source, "op": "c"}).encode()


def lines_left(root: Path) -> list[dict[str, Any]]:
    """The records in the quarantine, whoever put them there."""
    files = sorted((root / "checkpoint-quarantine").glob("*/batch-*/*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def offsets_left(root: Path) -> list[int]:
    return sorted(line["offset"] for line in lines_left(root))


def put(root: Path, batch: int, rows: Iterable[QuarantineRow], owner: str = QUERY) -> None:
    quarantine(root, owner).add(batch, 0, rows)
