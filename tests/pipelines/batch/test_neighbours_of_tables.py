"""A pattern that also matches what a connector writes beside its tables makes tables of these alone, in each format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sources.debezium_json.decoder import DebeziumJsonDecoder
from sources.decode_target import Decoder
from sources.upsert_json.decoder import UpsertJsonDecoder
from tests.support.envelope_records import event, records
from tests.support.local_batches import pipeline_tables, reported_batches

CHANGE = {"source": {"connector": "mysql", "db": "shop"}, "ts_ms": 1, "databaseName": "shop", "schemaName": None}
NEIGHBOURS: dict[str, tuple[Any, list[Any]]] = {
    "__debezium-heartbeat.shop": ({"serverName": "shop"}, [{"ts_ms": 1}, {"ts_ms": 2}]),
    "shop": ({"databaseName": "shop"}, [{**CHANGE, "ddl": "CREATE TABLE t(id INT)", "tableChanges": []}]),
    "shop.transaction": (
        {"id": "7:1"},
        [
            {"status": "BEGIN", "id": "7:1", "event_count": None, "data_collections": None, "ts_ms": 1},
            {"status": "END", "id": "7:1", "event_count": 1, "data_collections": [{"data_collection": "public.t"}]},
        ],
    ),
    "shop.notifications": ({"id": "a"}, [{"id": "a", "aggregate_type": "Snapshot", "type": "DONE",
                                          "additional_data": {}}]),
    "shop.signals": ("shop", [{"type": "execute-snapshot", "data": {"data-collections": ["public.t"]}}]),
    "shop.message": ({"prefix": "p"}, [{"op": "m", "source": {"db": "shop"}, "message": {"prefix": "p"}}]),
}  # fmt: skip


def batch(row: Any, *, has_schema: bool) -> pa.RecordBatch:
    def wrapped(value: Any) -> Any:
        return {"schema": {"type": "struct", "fields": []}, "payload": value} if has_schema else value

    parts = [records([row], [{"id": 1}], topic="shop.public.t")]
    for topic, (key, values) in NEIGHBOURS.items():
        parts.append(records([wrapped(value) for value in values], [wrapped(key)] * len(values), topic=topic))
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


@pytest.mark.parametrize("has_schema", [False, True])
@pytest.mark.parametrize(
    ("decoder", "row"),
    [
        (DebeziumJsonDecoder(), event("c", None, {"id": 1, "v": "a"}, table="t")),
        (UpsertJsonDecoder(), {"id": 1, "v": "a", "__op": "c"}),
    ],
    ids=["debezium-json", "upsert-json"],
)
def test_only_tables_become_tables(tmp_path: Path, decoder: Decoder, row: Any, has_schema: bool) -> None:
    tables = pipeline_tables(tmp_path, [{"match": {"topic": ".*"}, "into": "lake.{table}"}])

    quarantine, (report,) = reported_batches(tables, [batch(row, has_schema=has_schema)], tmp_path, decoder=decoder)

    assert [*tables.sinks] == ["lake.t"]
    assert not Path(quarantine.path).exists()
    assert (report.counts.with_rows, report.counts.control, report.counts.messages) == (1, 7, 1)
