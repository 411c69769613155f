"""Records of replication tools for tests, and the tables that come of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_table.table import Table
from pipelines.batch.batch_report import BatchReport
from pipelines.tables.tables import PipelineTables
from sources.changes import RECORD_SCHEMA
from sources.dumps.dump_records import record_batches_from_dump
from sources.expressions.decoder import TransformingDecoder
from sources.formats import FORMATS
from tests.support.local_batches import reported_batches, shop_config

DUMPS = Path(__file__).parents[1] / "sources" / "feeds" / "dumps"
Json = dict[str, Any]

TYPES = {"id": "int(11)", "qty": "int(11)", "note": "varchar(20)"}


def canal(op: str, *rows: Json, old: Sequence[Json] | None = None, types: Json = TYPES, **fields: Any) -> Json:
    """A message about table shop.orders, with the fields in the order in which Canal writes them."""
    head: Json = {"data": list(rows) or None, "database": "shop", "es": 1_714_557_600_000, "id": 7, "isDdl": False}
    tail = {"sql": "", "sqlType": dict.fromkeys(types, 12), "table": "orders", "ts": 1_714_557_600_135, "type": op}
    return head | {"mysqlType": types, "old": old, "pkNames": ["id"]} | tail | fields


def maxwell(op: str, row: Json, old: Json | None = None, **fields: Any) -> Json:
    """A record about a row of table shop.orders."""
    head = {"database": "shop", "table": "orders", "type": op, "ts": 1_714_557_600, "xid": 5, "commit": True}
    return head | fields | {"data": row} | ({} if old is None else {"old": old})


def golden_gate(op: str, before: Json | None, after: Json | None, **fields: Any) -> Json:
    """A record about a row of table SHOP.ORDERS."""
    head = {"table": "SHOP.ORDERS", "op_type": op, "op_ts": "2024-05-01 10:00:00.000000", "pos": "00000000000000002928"}
    sides = {name: row for name, row in (("before", before), ("after", after)) if row is not None}
    return head | {"primary_keys": ["ID"]} | fields | sides


def dms(op: str, row: Json | None, kind: str = "data", **fields: Any) -> Json:
    """A record about a row of table shop.orders."""
    metadata = {"timestamp": "2024-05-01T10:00:00.210671Z", "record-type": kind, "operation": op}
    return {"data": row, **fields, "metadata": metadata | {"schema-name": "shop", "table-name": "orders"}}


def batch_of(*values: Json | bytes | None, first_offset: int = 0, keys: Sequence[Json | None] = ()) -> pa.RecordBatch:
    """Records of topic shop; their message keys are null unless given."""
    rows = [
        {"topic": "shop", "partition": 0, "offset": offset, "timestamp": 0, "headers": None, "value": _bytes(value)}
        for offset, value in enumerate(values, first_offset)
    ]
    for row, key in zip(rows, keys or [None] * len(rows), strict=True):
        row["key"] = _bytes(key)
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def _bytes(value: Json | bytes | None) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def dump(name: str) -> pa.RecordBatch:
    """The records of a dump in the folder of the feeds' tests."""
    (batch,) = record_batches_from_dump(str(DUMPS / f"{name}.jsonl"))
    return batch


class Run:
    """What batches gave: reports, reasons by offset, tables."""

    def __init__(
        self,
        directory: Path,
        form: str,
        batches: Iterable[pa.RecordBatch],
        *rules: Mapping[str, object],
        options: Mapping[str, str] | None = None,
        table_options: Mapping[str, str] | None = None,
    ) -> None:
        config = shop_config(
            directory, [dict(r) for r in rules], {"bucket": "2", **(table_options or {})}, otherwise="create"
        )
        self.pipeline = PipelineTables(config, "tidemark-shop-test")
        decoder = TransformingDecoder(FORMATS[form].decoder(options or {}))
        quarantine, self.reports = reported_batches(self.pipeline, batches, directory, decoder=decoder)
        files = Path(quarantine.path).glob("**/*.jsonl")
        lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        self.reasons: dict[int, str] = {line["offset"]: line["reason"] for line in lines}

    @property
    def report(self) -> BatchReport:
        """The report of the only batch."""
        (report,) = self.reports
        return report

    def table(self, name: str) -> Table:
        """A table, opened again."""
        return Table.open(self.pipeline.sinks[name].table.paths.root)

    def rows(self, name: str, key: str = "id") -> list[Json]:
        """The rows of a table by a column."""
        return sorted(self.table(name).to_arrow().to_pylist(), key=lambda row: row[key])

    def types(self, name: str) -> dict[str, str]:
        """The columns of a table with their types."""
        return {f.name: str(f.type) for f in self.table(name).schema.fields}
