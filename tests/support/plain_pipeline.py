"""A pipeline of one plain format, in this process: records in, rows of its table out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_table.table import Table
from pipelines.batch.batch_report import BatchReport
from pipelines.config.config import PipelineConfig
from pipelines.tables.tables import PipelineTables
from sources.changes import RECORD_SCHEMA
from tests.support.local_batches import reported_batches

TOPIC = "orders"


def raw(value: Any) -> bytes | None:
    """Bytes and None as they are, all else as JSON."""
    return value if value is None or isinstance(value, bytes) else json.dumps(value).encode()


def plain_batch(rows: Iterable[tuple[Any, Any]], first: int = 0, topic: str = TOPIC) -> pa.RecordBatch:
    """Records of keys and values."""
    found = [
        {"topic": topic, "partition": 0, "offset": offset, "key": raw(key), "value": raw(value)}
        for offset, (key, value) in enumerate(rows, first)
    ]
    return pa.RecordBatch.from_pylist(found, schema=RECORD_SCHEMA)


@dataclass
class PlainPipeline:
    """Rule and format of a pipeline whose table is ``lake.orders``, or all its rules."""

    directory: Path
    form: object
    rule: dict[str, object] = field(default_factory=dict)
    reports: list[BatchReport] = field(default_factory=list)
    rules: Sequence[Mapping[str, object]] = ()

    def __post_init__(self) -> None:
        self.config = PipelineConfig.model_validate(
            {
                "version": 1,
                "name": "shop",
                "source": {"files": {"path": str(self.directory)}, "format": self.form},
                "checkpoint": str(self.directory / "checkpoint"),
                "catalog": {"warehouse": str(self.directory / "warehouse")},
                "tables": self.rules
                or [{"match": {"topic": ".*"}, "into": "lake.orders", "max_bad_records": None, **self.rule}],
            }
        )
        self.tables = PipelineTables(self.config, "tidemark-shop-test")

    def run(self, *batches: pa.RecordBatch) -> None:
        """Bring batches in."""
        decoder = self.config.decoder
        self.quarantine, reports = reported_batches(
            self.tables, batches, self.directory, len(self.reports), decoder=decoder
        )
        self.reports += reports

    @property
    def table(self) -> Table:
        (sink,) = self.tables.sinks.values()
        return Table.open(sink.table.paths.root)

    def rows(self, *columns: str) -> list[Any]:
        """The rows as dictionaries, or as tuples of some columns, in order."""
        found = self.table.to_arrow().to_pylist()
        if columns:
            return sorted((tuple(row[name] for name in columns) for row in found), key=repr)
        return sorted(found, key=repr)

    @property
    def types(self) -> dict[str, str]:
        return {f.name: str(f.type) for f in self.table.schema.fields}

    @property
    def bad(self) -> dict[int, str]:
        """The reasons of the quarantine, by offset."""
        lines = [line for path in Path(self.quarantine.path).rglob("*.jsonl") for line in path.read_text().splitlines()]
        return {line["offset"]: line["reason"] for line in map(json.loads, lines)}

    def skipped(self) -> dict[str, int]:
        """Counted skips of all batches."""
        total: dict[str, int] = {}
        for report in self.reports:
            for word, number in report.counts.skipped.items():
                total[word] = total.get(word, 0) + number
        return total

    def assert_all_accounted_for(self, batches: Sequence[pa.RecordBatch]) -> None:
        assert sum(report.counts.accounted for report in self.reports) == sum(batch.num_rows for batch in batches)
