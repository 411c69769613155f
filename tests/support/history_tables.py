"""Histories in batches, and the tables that pipelines below a directory make of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from paimon_table.table import Table
from tests.support.events import History, records_of
from tests.support.replay import plain_rows


def opened(tmp_path: Path, name: str = "orders") -> Table:
    return Table.open(f"{tmp_path}/warehouse/lake.db/{name}")


def content(tmp_path: Path, name: str = "orders") -> dict[int, dict[str, object]]:
    return {int(row["id"]): row for row in plain_rows(opened(tmp_path, name).to_arrow())}


def batches(history: History) -> list[pa.RecordBatch]:
    records = records_of(history)
    return [records.slice(start, 60) for start in range(0, records.num_rows, 60)]
