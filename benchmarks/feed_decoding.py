"""Time of one core to decode the JSON of other replication tools, compared with Debezium's JSON of the same rows.

python -m benchmarks.feed_decoding [EVENTS]
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from benchmarks.json_decoding import SOURCE as DEBEZIUM_SOURCE
from benchmarks.json_decoding import TARGET, TOPIC, TYPES, batch_of, event, order
from paimon_table.types import parse_type
from sources.changes import SourceTable
from sources.column_forms import ColumnForms
from sources.decode_target import DecodeTarget, KeyRule
from sources.formats import FORMATS
from sources.position_kinds import POSITION, POSITION_TYPE, form_of

SOURCE = SourceTable(TOPIC, "shop", None, "orders")
SCHEMA_SOURCE = SourceTable(TOPIC, "shop", "shop", "orders")
MYSQL = {
    "id": "bigint(20)",
    "customer_id": "int(11)",
    "status": "varchar(20)",
    "total": "decimal(10,2)",
    "currency": "char(3)",
    "qty": "int(11)",
    "note": "text",
    "paid": "tinyint(1)",
    "placed_at": "datetime(6)",
    "updated_at": "datetime(6)",
}
COLUMNS = TYPES | {"placed_at": "TIMESTAMP(6)"}
FEED_TARGET = DecodeTarget(
    tuple((name, parse_type(t)) for name, t in COLUMNS.items()),
    ("id",),
    keys=KeyRule("lake.orders", is_stated=True),
    declared=frozenset(COLUMNS),
)
_MOMENT = "2026-01-{:02d} 06:07:20.{:06d}"


def row(key: int, rng: random.Random) -> dict[str, Any]:
    """The row of ``json_decoding`` as JSON values."""
    moments = {name: _MOMENT.format(rng.randrange(1, 29), rng.randrange(10**6)) for name in ("placed_at", "updated_at")}
    return order(key, rng) | {"total": f"{rng.randrange(100, 10**6) / 100:.2f}"} | moments


def changes(rng: random.Random) -> tuple[str, int]:
    return rng.choices(["insert", "update", "delete"], [20, 70, 10])[0], rng.randrange(200_000)


def canal(number: int, rng: random.Random) -> dict[str, Any]:
    op, key = changes(rng)
    texts = {n: None if v is None else str(int(v)) if isinstance(v, bool) else str(v) for n, v in row(key, rng).items()}
    head = {"id": number, "database": "shop", "table": "orders", "pkNames": ["id"], "isDdl": False, "type": op.upper()}
    head |= {"es": 1_795_297_252_072 + number, "ts": 1_795_297_252_090 + number, "sql": "", "gtid": ""}
    head |= {"sqlType": dict.fromkeys(MYSQL, 12), "mysqlType": MYSQL, "data": [texts]}
    return head | {"old": [{"qty": "1"}] if op == "update" else None}


def maxwell(number: int, rng: random.Random) -> dict[str, Any]:
    op, key = changes(rng)
    head = {
        "database": "shop",
        "table": "orders",
        "type": op,
        "ts": 1_795_297_252 + number,
        "xid": number,
        "commit": True,
    }
    head |= {"primary_key_columns": ["id"], "data": row(key, rng)}
    return head | ({"old": {"qty": 1}} if op == "update" else {})


def goldengate(number: int, rng: random.Random) -> dict[str, Any]:
    op, key = changes(rng)
    image = row(key, rng)
    head = {"table": "shop.orders", "op_type": op[0].upper(), "op_ts": f"2026-11-05 18:45:{number % 60:02d}.000000"}
    head |= {"current_ts": "2026-11-05T18:45:36.000", "pos": f"{number:020d}", "primary_keys": ["id"]}
    sides = {} if op == "insert" else {"before": image}
    return head | sides | ({} if op == "delete" else {"after": image})


def dms(number: int, rng: random.Random) -> dict[str, Any]:
    op, key = changes(rng)
    time_ = f"2026-11-05T18:45:{number % 60:02d}.210671Z"
    metadata = {"timestamp": time_, "record-type": "data", "operation": op, "partition-key-type": "schema-table"}
    metadata |= {"schema-name": "shop", "table-name": "orders", "transaction-id": number}
    return {"data": row(key, rng), "metadata": metadata}


MAKERS: Mapping[str, Callable[[int, random.Random], dict[str, Any]]] = {
    "canal-json": canal,
    "maxwell-json": maxwell,
    "ogg-json": goldengate,
    "dms-json": dms,
}


def document(number: int, rng: random.Random) -> dict[str, Any]:
    """The same row as a document of MongoDB in canonical Extended JSON."""
    op, key = changes(rng)
    fields = row(key, rng)
    numbers = {name: {"$numberInt": str(fields[name])} for name in ("customer_id", "qty")}
    moments = {name: {"$date": {"$numberLong": str(rng.randrange(1 << 40))}} for name in ("placed_at", "updated_at")}
    total = {"total": {"$numberDecimal": str(fields["total"])}}
    whole = {"_id": {"$numberLong": str(fields.pop("id"))}, **fields, **numbers, **moments, **total}
    after = None if op == "delete" else json.dumps(whole, separators=(",", ":"), ensure_ascii=False)
    source = {"version": "3.2.1.Final", "connector": "mongodb", "name": "mg", "ts_ms": 1_795_297_252_072 + number}
    source |= {"snapshot": "false", "db": "shop", "sequence": None, "collection": "orders", "ord": 1}
    head = {"before": None, "after": after, "updateDescription": None, "source": source, "op": op[0].replace("i", "c")}
    return head | {"ts_ms": 1_795_297_252_090 + number}


def documents(events: int, rng: random.Random) -> tuple[pa.RecordBatch, SourceTable, DecodeTarget]:
    """Events of a collection, with the message keys that deletes need."""
    ids = [rng.randrange(200_000) for _ in range(events)]
    values = [json.dumps(document(n, rng), separators=(",", ":"), ensure_ascii=False).encode() for n in range(events)]
    keys = [json.dumps({"id": json.dumps({"$numberLong": str(i)})}).encode() for i in ids]
    print(f"MongoDB: {sum(map(len, values)) / events:.0f} bytes an event")
    batch = batch_of(values, rng)
    columns = {"_id" if name == "id" else name: t for name, t in COLUMNS.items()} | dict.fromkeys(
        ("placed_at", "updated_at"), "TIMESTAMP_LTZ(3)"
    )
    target = DecodeTarget(
        tuple((name, parse_type(t)) for name, t in columns.items()), ("_id",), declared=frozenset(columns)
    )
    batch = batch.set_column(batch.schema.get_field_index("key"), "key", pa.array(keys, pa.binary()))
    return batch, SourceTable(TOPIC, "shop", None, "orders"), target


Run = Callable[[], object]


def runs(events: int) -> dict[str, Run]:
    """One decoding of as many events for each format, Debezium's first."""
    rng = random.Random(7)
    batch = batch_of([event(number, rng) for number in range(events)], rng)
    found: dict[str, Run] = {"debezium-json": decoding("debezium-json", batch, {DEBEZIUM_SOURCE: TARGET})}
    forms = ColumnForms({POSITION: form_of(0)})
    ordered = replace(TARGET, ordering=((POSITION, POSITION_TYPE),), forms=forms)
    found["order_by"] = decoding("debezium-json", batch, {DEBEZIUM_SOURCE: ordered})
    for name, make in MAKERS.items():
        values = [json.dumps(make(n, rng), separators=(",", ":"), ensure_ascii=False).encode() for n in range(events)]
        targets = {SOURCE: FEED_TARGET, SCHEMA_SOURCE: FEED_TARGET}
        found[name] = decoding(name, batch_of(values, rng), targets)
        print(f"{name}: {sum(map(len, values)) / events:.0f} bytes an event")
    batch, source, target = documents(events, rng)
    found["MongoDB"] = decoding("debezium-json", batch, {source: target})
    return found


def decoding(
    name: str,
    batch: pa.RecordBatch,
    targets: Mapping[SourceTable, DecodeTarget],
    options: Mapping[str, Any] | None = None,
) -> Run:
    decoder = FORMATS[name].decoder(options or {})
    decoded = decoder.decode(batch, targets)
    assert decoded.counts.with_rows == batch.num_rows, decoded.quarantine[:1]
    return lambda: decoder.decode(batch, targets)


def compare(found: Mapping[str, Run], events: int, rounds: int = 9) -> None:
    """All formats in turn, so that a slow moment of the machine is one of each."""
    took: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(rounds):
        for name, run in found.items():
            started = time.perf_counter()
            run()
            took[name].append(time.perf_counter() - started)
    base = statistics.median(took["debezium-json"])
    for name, seconds in took.items():
        median = statistics.median(seconds)
        print(f"{name:14} {median / events * 1e6:6.2f} us/event: {base / median:.2f} of the rate of debezium-json")


def main(events: int) -> None:
    compare(runs(events), events)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 25_000)
