"""Tables of rules that rename, compute and filter: what batches of Debezium events make of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_table.row_kind import VALUE_KIND, RowKind
from paimon_table.table import Table
from pipelines.batch.batch_report import BatchReport
from pipelines.tables.tables import PipelineTables
from sources.changes import RECORD_SCHEMA
from tests.support.local_batches import reported_batches, shop_config

ROW_OF_T = {"id": 1, "name": "bob", "n": 6, "note": "x"}
HIDDEN = "__debezium_unavailable_value"
Image = Mapping[str, Any] | None
Event = tuple[str, Image, Image]
Key = tuple[str, ...]


def records(
    events: Sequence[Event | None], key: Sequence[str] = ("id",), first: int = 0, **names: str
) -> pa.RecordBatch:
    """Events (operation, before, after) of one source table as records of one partition."""
    source = {"db": "shop", "schema": "public", "table": "t", "ts_ms": 1_700_000_000_000, **names}
    rows = []
    for offset, event in enumerate(events, first):
        assert event is not None
        op, before, after = event
        image = after if after is not None else before
        assert image is not None
        value = json.dumps({"before": before, "after": after, "source": source, "op": op}).encode()
        key_text = json.dumps({name: image[name] for name in key}).encode()
        place = {"topic": f"{source['db']}.public.t", "partition": 0, "offset": offset, "timestamp": 1_000_000}
        headers = [{"key": "trace", "value": b"abc"}]
        rows.append({**place, "headers": headers, "key": key_text, "value": value})
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


class Run:
    """One pipeline with one rule into ``lake.t``; batches continue where earlier ones ended."""

    def __init__(
        self, directory: Path, rule: Mapping[str, object], key: Sequence[str] = ("id",), **options: str
    ) -> None:
        self.directory, self.key, self.offset, self.batch = directory, key, 0, 0
        self.quarantined: list[str] = []
        self.reports: list[BatchReport] = []
        self._options = {"bucket": "1", **options}
        self.start(rule)

    def start(self, rule: Mapping[str, object]) -> None:
        """Start again with another rule, as a restart does."""
        rules: list[dict[str, object]] = [{"match": {"table": "t"}, "into": "lake.t", **rule}]
        self.config = shop_config(self.directory, rules, self._options)
        self.tables = PipelineTables(self.config, "tidemark-shop-test")

    def take(self, *batches: Sequence[Event], **names: str) -> Run:
        for events in batches:
            batch = records(events, self.key, self.offset, **names)
            _, reports = reported_batches(self.tables, [batch], self.directory, self.batch, self.config.decoder)
            self.offset, self.batch = self.offset + len(events), self.batch + 1
            self.reports += reports
        return self

    @property
    def table(self) -> Table:
        return Table.open(f"{self.config.catalog.warehouse}/lake.db/t")

    @property
    def has_table(self) -> bool:
        return "lake.t" in self.tables.sinks

    @property
    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.table.to_arrow().to_pylist()
        return rows

    @property
    def types(self) -> dict[str, str]:
        return {f.name: str(f.type) for f in self.table.schema.fields}

    def changes(self, *columns: str) -> list[tuple[Any, ...]]:
        return [
            (RowKind(row[VALUE_KIND]).short, *(row[name] for name in columns))
            for _, part in self.table.changes()
            for row in part.to_pylist()
        ]

    @property
    def reasons(self) -> dict[str, int]:
        """Of the bad records of all batches."""
        found: dict[str, int] = {}
        for path in sorted((self.directory / "quarantine").rglob("*.jsonl*")) if self.directory.exists() else ():
            for line in path.read_text().splitlines():
                reason = json.loads(line)["reason"]
                found[reason] = found.get(reason, 0) + 1
        return found
