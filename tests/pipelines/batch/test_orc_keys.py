"""Keys that an ORC file would give back as other ones go to quarantine; their deletes concern no row."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_table.table import Table
from tests.support.local_batches import dump_batches, pipeline_tables, run_batches


def _event(offset: int, millis: int, value: int | None) -> str:
    row = None if value is None else {"at": millis, "v": value}
    payload = {
        "before": None if row else {"at": millis, "v": 0},
        "after": row,
        "source": {"db": "shop", "schema": "public", "table": "visits"},
        "op": "c" if row else "d",
        "ts_ms": 0,
    }
    record = {"topic": "shop.public.visits", "partition": 0, "offset": offset, "tstype": "create", "ts": 0}
    return json.dumps({**record, "key": json.dumps({"at": millis}), "payload": json.dumps(payload)})


@pytest.mark.parametrize(("file_format", "refused"), [("orc", [0]), ("parquet", [])])
def test_keys_of_the_last_second_before_1970(tmp_path: Path, file_format: str, refused: list[int]) -> None:
    dump = tmp_path / "visits.jsonl"
    events = [(-500, 1), (500, 2), (-1000, 3), (-500, None)]
    dump.write_text("".join(_event(i, *event) + "\n" for i, event in enumerate(events)))
    rule: dict[str, object] = {
        "match": {"table": "visits"},
        "into": "lake.visits",
        "columns": {"types": {"at": "TIMESTAMP(3)"}},
    }
    tables = pipeline_tables(tmp_path, [rule], **{"file.format": file_format, "changelog-producer": "lookup"})

    quarantine = run_batches(tables, dump_batches(dump, 1), tmp_path)

    rows = Table.open(str(tmp_path / "warehouse" / "lake.db" / "visits")).to_arrow()
    keys = rows.column("at").cast(pa.int64()).to_pylist()
    assert dict(zip(keys, rows.column("v").to_pylist(), strict=True)) == {500: 2, -1000: 3}
    bad = [json.loads(line) for file in Path(quarantine.path).rglob("*.jsonl") for line in file.open()]
    assert [record["offset"] for record in bad] == refused
    assert all("column at TIMESTAMP(3) NOT NULL: the key 1969-12-31 23:59:59.500" in r["reason"] for r in bad)
