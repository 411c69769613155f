"""One rule with expressions over every format of records: the same rows come into the table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.tables.tables import PipelineTables
from tests.support.column_rules import records
from tests.support.feed_records import batch_of, canal, dms, golden_gate, maxwell
from tests.support.local_batches import processed, shop_config, task_settings
from tests.support.row_records import rows_of

FIRST, LEAVES, ENTERS, LEFT_OUT = (
    {"id": 1, "qty": 6, "note": "a"}, {"id": 2, "qty": 7, "note": "b"}, {"id": 3, "qty": 1, "note": "c"},
    {"id": 4, "qty": 2, "note": "d"},
)  # fmt: skip
GONE, THERE = {**LEAVES, "qty": 0}, {**ENTERS, "qty": 9}


def _texts(row: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in row.items()}


def _upper(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name.upper(): value for name, value in row.items()}


def _envelopes() -> pa.RecordBatch:
    inserts = [("c", None, row) for row in (FIRST, LEAVES, ENTERS, LEFT_OUT)]
    return records([*inserts, ("u", None, GONE), ("u", None, THERE)])


def _canal() -> pa.RecordBatch:
    inserts = [canal("INSERT", _texts(row)) for row in (FIRST, LEAVES, ENTERS, LEFT_OUT)]
    updates = [canal("UPDATE", _texts(row), old=[{"qty": "1"}]) for row in (GONE, THERE)]
    return batch_of(*inserts, *updates)


def _maxwell() -> pa.RecordBatch:
    inserts = [maxwell("insert", row, primary_key_columns=["id"]) for row in (FIRST, LEAVES, ENTERS, LEFT_OUT)]
    updates = [maxwell("update", row, {"qty": 1}, primary_key_columns=["id"]) for row in (GONE, THERE)]
    return batch_of(*inserts, *updates)


def _golden_gate() -> pa.RecordBatch:
    inserts = [golden_gate("I", None, _upper(row)) for row in (FIRST, LEAVES, ENTERS, LEFT_OUT)]
    updates = [golden_gate("U", _upper(old), _upper(new)) for old, new in ((LEAVES, GONE), (ENTERS, THERE))]
    return batch_of(*inserts, *updates)


def _dms() -> pa.RecordBatch:
    return batch_of(
        *(dms("insert", row) for row in (FIRST, LEAVES, ENTERS, LEFT_OUT)), *(dms("update", r) for r in (GONE, THERE))
    )


def _rows() -> pa.RecordBatch:
    rows = (FIRST, LEAVES, ENTERS, LEFT_OUT, GONE, THERE)
    return rows_of(*(({"id": row["id"]}, row) for row in rows))


FORMATS = {
    "debezium-json": _envelopes, "canal-json": _canal, "maxwell-json": _maxwell, "ogg-json": _golden_gate,
    "dms-json": _dms, "upsert-json": _rows,
}  # fmt: skip


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("step", [1, 6])
def test_a_rule_means_the_same_for_every_format(tmp_path: Path, form: str, step: int) -> None:
    key, qty, note = ("ID", "QTY", "NOTE") if form == "ogg-json" else ("id", "qty", "note")
    rule: dict[str, object] = {
        "match": {"topic": ".*"}, "into": "lake.t", "primary_key": [key], "where": "qty > 5",
        "columns": {
            "rename": {note: "text"}, "drop": [qty], "add": {"double": "CAST(qty AS BIGINT) * 2", "at": "$offset"},
            "types": {key: "BIGINT", qty: "BIGINT"},
        },
    }  # fmt: skip
    source = {"files": {"path": str(tmp_path)}, "format": form}
    config = shop_config(tmp_path, [rule], {"bucket": "1"}, source=source)
    tables = PipelineTables(config, "tidemark-shop-test")
    batch = FORMATS[form]()
    parts = [batch.slice(at, step) for at in range(0, batch.num_rows, step)]

    processed(tables, parts, task_settings(tmp_path, decoder=config.decoder))

    rows = sorted(tables.sinks["lake.t"].table.to_arrow().to_pylist(), key=lambda row: row[key])
    first = batch.column("offset")[0].as_py()
    assert [(r[key], r["text"], r["double"], r["at"] - first) for r in rows] == [(1, "a", 12, 0), (3, "c", 18, 5)]
