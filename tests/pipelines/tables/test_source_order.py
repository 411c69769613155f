"""Tables whose rows are ordered by their place in the log of the source (`order_by: source_position`)."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from paimon_table import Table
from paimon_table.errors import ConfigError
from pipelines.tables.tables import PipelineTables
from sources.changes import RECORD_SCHEMA
from tests.support.changelog import replay_strictly
from tests.support.local_batches import pipeline_tables, processed, reported_batches, shop_config, task_settings
from tests.support.source_content import open_table

RULE: dict[str, object] = {
    "match": {"table": "items"},
    "into": "lake.items",
    "order_by": "source_position",
    "merge_sources": "same_rows",
}
TOPICS = ("shop.public.items", "again.public.items")


@dataclass(frozen=True)
class Change:
    """One event of a history, with its place in the log."""

    op: str
    key: int
    n: int | None
    source: Mapping[str, Any]

    @property
    def value(self) -> dict[str, Any]:
        row = {"id": self.key, "n": self.n}
        source = {"db": "shop", "schema": "public", "table": "items", "ts_ms": 1, **self.source}
        is_gone = self.op == "d"
        return {"before": {"id": self.key} if is_gone else None, "after": None if is_gone else row, "source": source,
                "op": self.op}  # fmt: skip


def postgresql(number: int) -> dict[str, Any]:
    return {
        "connector": "postgresql",
        "lsn": 1000 + number,
        "sequence": json.dumps([str(990 + number), str(1000 + number)]),
    }


def batch(
    changes: Sequence[Change], topic: str = TOPICS[0], first_offset: int = 0, partition: int = 0
) -> pa.RecordBatch:
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "offset": first_offset + i,
            "timestamp": 0,
            "key": json.dumps({"id": change.key}).encode(),
            "value": json.dumps(change.value).encode(),
            "headers": None,
        }
        for i, change in enumerate(changes)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def content(table: Table) -> dict[int, int | None]:
    return {row["id"]: row["n"] for row in table.to_arrow().to_pylist()}


def test_an_older_event_never_undoes_a_newer_update_or_delete(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, [RULE])
    newer = [
        Change("u", 1, 10, postgresql(50)),
        Change("d", 2, None, postgresql(60)),
        Change("c", 3, 1, postgresql(70)),
    ]
    older = [Change("c", 1, 1, postgresql(5)), Change("u", 2, 2, postgresql(6)), Change("u", 3, 3, postgresql(80))]

    reported_batches(tables, [batch(newer), batch(older, TOPICS[1])], tmp_path)

    assert content(open_table(tables, "items")) == {1: 10, 3: 3}
