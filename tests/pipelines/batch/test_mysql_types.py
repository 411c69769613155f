"""What MySQL and MariaDB send for types that others do not have, from the records to the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_table.table import Table
from sources.changes import RECORD_SCHEMA
from tests.support.local_batches import pipeline_tables, run_batches

RULE: list[dict[str, object]] = [{"match": {"table": "t"}, "into": "lake.t"}]
UNSIGNED = {"type": "int64", "parameters": {"__debezium.source.column.type": "BIGINT UNSIGNED"}}
MICRO_TIME = {"type": "int64", "name": "io.debezium.time.MicroTime"}


def batch(*events: tuple[str, dict[str, Any], dict[str, Any] | None], offset: int = 0, **types: Any) -> pa.RecordBatch:
    """Events (op, message key, after) whose embedded schema gives the columns these types."""
    row = {"type": "struct", "field": "after", "fields": [{"field": name, **t} for name, t in types.items()]}
    schema = {"type": "struct", "fields": [row, {"field": "op", "type": "string"}]}
    source = {"db": "shop", "table": "t"}
    rows = []
    for at, (op, key, after) in enumerate(events, offset):
        payload = {"before": None, "after": after, "source": source, "op": op}
        value = json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()
        place = {"topic": "m.shop.t", "partition": 0, "offset": at, "timestamp": 0, "headers": None}
        rows.append({**place, "key": json.dumps(key).encode(), "value": value})
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def rows_in(directory: Path) -> dict[int, Any]:
    rows = Table.open(str(directory / "warehouse" / "lake.db" / "t")).to_arrow().to_pylist()
    return {int(row["id"]): row["v"] for row in rows}


def test_unsigned_keys_beyond_63_bits_are_kept_apart_and_deleted(tmp_path: Path) -> None:
    types: dict[str, Any] = {"id": UNSIGNED, "v": {"type": "string"}}
    events = [("c", {"id": key}, {"id": key, "v": str(key)}) for key in (1, -1, -2)]

    run_batches(
        pipeline_tables(tmp_path, RULE),
        [batch(*events, **types), batch(("d", {"id": -1}, None), offset=3, **types)],
        tmp_path,
    )

    assert rows_in(tmp_path) == {1: "1", 18446744073709551614: "-2"}


def test_a_bigint_column_that_turns_out_to_be_unsigned_is_widened(tmp_path: Path) -> None:
    number = {"type": "int64"}
    first = batch(("c", {"id": 1}, {"id": 1, "v": 5}), id=number, v=number)
    second = batch(("c", {"id": 2}, {"id": 2, "v": -1}), offset=1, id=number, v=UNSIGNED)

    run_batches(pipeline_tables(tmp_path, RULE), [first, second], tmp_path)

    assert rows_in(tmp_path) == {1: 5, 2: 18446744073709551615}


def test_times_that_are_durations_are_texts(tmp_path: Path) -> None:
    times = [-3_020_399_000_000, 3_020_399_000_000, 86_400_000_000, -1, None]
    events = [("c", {"id": key}, {"id": key, "v": value}) for key, value in enumerate(times)]

    quarantine = run_batches(
        pipeline_tables(tmp_path, RULE), [batch(*events, id={"type": "int32"}, v=MICRO_TIME)], tmp_path
    )

    assert [v for _, v in sorted(rows_in(tmp_path).items())] == [
        "-838:59:59",
        "838:59:59",
        "24:00:00",
        "-00:00:00.000001",
        None,
    ]
    assert not Path(quarantine.path).exists()
