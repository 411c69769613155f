"""Time of one core to decode Debezium JSON events, and the time of alternatives (docs/decisions/0003).

It also decodes the same events flattened, as rows under message keys.

python -m benchmarks.json_decoding [EVENTS]
"""

from __future__ import annotations

import base64
import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from paimon_table.types import parse_type
from sources.changes import RECORD_SCHEMA, SourceTable
from sources.debezium_json.decoder import DebeziumJsonDecoder
from sources.debezium_json.envelope_split import Heads, split_envelopes
from sources.debezium_json.envelopes import EnvelopeParser
from sources.debezium_json.message_keys import MessageKeys
from sources.decode_target import DecodeTarget, KeyRule
from sources.json_changes.column_plan import plan_columns
from sources.upsert_json.decoder import UpsertJsonDecoder
from sources.values.value_forms import ValueForms

TOPIC = "shop.public.orders"
SOURCE = SourceTable(TOPIC, "shop", "public", "orders")
FLAT_SOURCE = SourceTable(TOPIC, None, "public", "orders")
UPSERTS = UpsertJsonDecoder()
TYPES = {
    "id": "BIGINT",
    "customer_id": "INT",
    "status": "STRING",
    "total": "DECIMAL(10, 2)",
    "currency": "STRING",
    "qty": "INT",
    "note": "STRING",
    "paid": "BOOLEAN",
    "placed_at": "TIMESTAMP_LTZ(6)",
    "updated_at": "TIMESTAMP(6)",
}
TARGET = DecodeTarget(
    tuple((name, parse_type(t)) for name, t in TYPES.items()), ("id",), keys=KeyRule("lake.orders", is_stated=False)
)
PLAN = plan_columns(TARGET, None, ValueForms())


def order(key: int, rng: random.Random) -> dict[str, Any]:
    return {
        "id": key,
        "customer_id": rng.randrange(50_000),
        "status": rng.choice(["new", "paid", "shipped"]),
        "total": base64.b64encode(rng.randrange(100, 10**6).to_bytes(3, "big")).decode(),
        "currency": "EUR",
        "qty": rng.randrange(9),
        "note": rng.choice([None, "leave at door", 'quote " and ü']),
        "paid": True,
        "placed_at": f"2026-01-{rng.randrange(1, 29):02d}T06:07:20.{rng.randrange(10**6):06d}Z",
        "updated_at": 1_795_297_252_072_077 + key,
    }


def event(number: int, rng: random.Random) -> bytes:
    """As the PostgreSQL connector 3.7 writes it: 20 % inserts, 70 % updates, 10 % deletes."""
    op, key = rng.choices("cud", [20, 70, 10])[0], rng.randrange(200_000)
    millis, lsn = 1_795_297_252_072 + number, 26_566_336 + 200 * number
    source = {"version": "3.7.0.Final", "connector": "postgresql", "name": "shop", "ts_ms": millis, "snapshot": "false"}
    source |= {"db": "shop", "sequence": f'["26566336","{lsn}"]', "ts_us": millis * 1000, "ts_ns": millis * 10**6}
    source |= {"schema": "public", "table": "orders", "txId": 735 + number, "lsn": lsn}
    source |= dict.fromkeys(("xmin", "origin", "origin_lsn"))
    row = order(key, rng)
    images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    times = {"ts_ms": millis, "ts_us": millis * 1000, "ts_ns": millis * 10**6}
    value = images | {"source": source, "transaction": None, "op": op} | times
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def flattened(value: bytes, *, with_metadata: bool = True) -> bytes:
    """An event behind ExtractNewRecordState, with ``rewrite`` and the fields that users add most often."""
    envelope = json.loads(value)
    row = envelope["after"] or envelope["before"]
    if with_metadata:
        row |= {"__deleted": "true" if envelope["op"] == "d" else "false", "__op": envelope["op"], "__table": "orders"}
        row |= {"__lsn": envelope["source"]["lsn"], "__source_ts_ms": envelope["source"]["ts_ms"]}
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode()


def batch_of(values: list[bytes], rng: random.Random) -> pa.RecordBatch:
    size = len(values)
    columns: dict[str, Any] = {
        "topic": [TOPIC] * size,
        "partition": [0] * size,
        "offset": range(size),
        "timestamp": [0] * size,
        "key": [b'{"id":%d}' % rng.randrange(200_000) for _ in range(size)],
        "value": values,
        "headers": [None] * size,
    }
    return pa.RecordBatch.from_pydict(columns, schema=RECORD_SCHEMA)


def with_orjson(texts: list[bytes], are_images: bool = False) -> list[pa.Array]:
    """Parse record by record and build the columns, without any conversion."""
    rows = [value if are_images else value["after"] or value["before"] for value in map(orjson.loads, texts)]
    return [pa.array([row[name] for row in rows]) for name in TYPES]


def parse(texts: pa.Array, heads: Heads | None) -> None:
    for _ in EnvelopeParser(texts, PLAN, heads).stretches():
        pass


def measured(what: str, events: int, run: Callable[[], object], times: int = 7) -> float:
    """The shortest time of this process in seconds, which is printed per event."""
    best = min(_seconds(run) for _ in range(times))
    print(f"{what:60} {best / events * 1e6:6.2f} us/event")
    return best


def _seconds(run: Callable[[], object]) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started


def main(events: int) -> None:
    rng = random.Random(7)
    values = [event(number, rng) for number in range(events)]
    batch = batch_of(values, rng)
    spaced = batch_of([b" " + value for value in values], rng)
    texts = batch.column("value")
    split = split_envelopes(texts)
    assert split is not None
    assert split.heads.is_before is not None
    images = split.heads.lines.to_pylist()
    decoder = DebeziumJsonDecoder()
    print(f"{events} events of {sum(map(len, values)) / events:.0f} bytes")
    measured("decoder, all of it", events, lambda: decoder.decode(batch, {SOURCE: TARGET}))
    measured("  split heads from tails, tails by shape", events, lambda: split_envelopes(texts))
    measured("  Arrow's JSON parser on row images", events, lambda: parse(texts, split.heads))
    flat = batch_of([flattened(value) for value in values], rng)
    measured("flattened rows, all of it", events, lambda: UPSERTS.decode(flat, {FLAT_SOURCE: TARGET}))
    bare = batch_of([flattened(value, with_metadata=False) for value in values], rng)
    measured("rows without metadata, all of it", events, lambda: UPSERTS.decode(bare, {FLAT_SOURCE: TARGET}))
    positions = np.arange(events)
    measured("  the fields of message keys", events, lambda: MessageKeys(batch.column("key")).codes(positions))
    measured("Arrow's JSON parser on whole texts", events, lambda: parse(texts, None))
    measured("orjson on whole texts, columns by Python", events, lambda: with_orjson(values))
    measured("orjson on row images, columns by Python", events, lambda: with_orjson(images, are_images=True))
    measured("decoder, exact path only", events, lambda: decoder.decode(spaced, {SOURCE: TARGET}), 1)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 25_000)
