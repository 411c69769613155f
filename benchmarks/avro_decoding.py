"""Time of one core to decode the same Debezium events in Avro and in JSON, and their rows alone in Avro.

python -m benchmarks.avro_decoding [EVENTS]
"""

from __future__ import annotations

import base64
import io
import json
import random
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

from benchmarks.json_decoding import SOURCE, TARGET, batch_of, event, measured
from sources.avro.registry_settings import RegistrySettings
from sources.changes import SourceTable
from sources.debezium_avro.decoder import DebeziumAvroDecoder
from sources.debezium_avro.options import AvroOptions
from sources.debezium_json.decoder import DebeziumJsonDecoder
from sources.debezium_json.policies import DebeziumPolicies
from sources.upsert_avro.decoder import UpsertAvroDecoder
from sources.upsert_json.policies import UpsertPolicies


def _named(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "connect.version": 1, "connect.name": name, **more}


def _optional(kind: Any) -> dict[str, Any]:
    return {"type": ["null", kind], "default": None}


ROW = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer_id", "type": "int"},
        {"name": "status", "type": "string"},
        {
            "name": "total",
            "type": _named("bytes", "org.apache.kafka.connect.data.Decimal", scale=2, precision=10)
            | {"connect.parameters": {"scale": "2", "connect.decimal.precision": "10"}},
        },
        {"name": "currency", "type": "string"},
        {"name": "qty", "type": "int"},
        {"name": "note", **_optional("string")},
        {"name": "paid", "type": "boolean"},
        {"name": "placed_at", "type": _named("string", "io.debezium.time.ZonedTimestamp")},
        {"name": "updated_at", "type": _named("long", "io.debezium.time.MicroTimestamp")},
    ],
}
KEY = {"type": "record", "name": "Key", "namespace": "shop.public.orders", "fields": [{"name": "id", "type": "long"}]}
SOURCE_BLOCK = {
    "type": "record",
    "name": "Source",
    "fields": [
        *({"name": name, "type": "string"} for name in ("version", "connector", "name")),
        {"name": "ts_ms", "type": "long"},
        {"name": "snapshot", "type": ["string", "null"], "default": "false"},
        {"name": "db", "type": "string"},
        {"name": "sequence", **_optional("string")},
        *({"name": name, **_optional("long")} for name in ("ts_us", "ts_ns")),
        *({"name": name, "type": "string"} for name in ("schema", "table")),
        *({"name": name, **_optional("long")} for name in ("txId", "lsn", "xmin")),
        {"name": "origin", **_optional("string")},
        {"name": "origin_lsn", **_optional("long")},
    ],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.public.orders",
    "fields": [
        {"name": "before", **_optional(ROW)},
        {"name": "after", **_optional("Value")},
        {"name": "source", "type": SOURCE_BLOCK},
        {"name": "transaction", **_optional("string")},
        {"name": "op", "type": "string"},
        *({"name": name, **_optional("long")} for name in ("ts_ms", "ts_us", "ts_ns")),
    ],
}


def _encoder(schema_id: int, schema: Any) -> Callable[[Any], bytes]:
    parsed = fastavro.parse_schema(schema)

    def encode(value: Any) -> bytes:
        out = io.BytesIO(schema_id.to_bytes(5, "big"))
        out.seek(5)
        fastavro.schemaless_writer(out, parsed, value)
        return out.getvalue()

    return encode


def _with_bytes(text: bytes) -> Any:
    value = json.loads(text)
    for row in (value["before"], value["after"]):
        if row is not None:
            row["total"] = base64.b64decode(row["total"])
    return value


def _one_by_one(values: list[bytes]) -> None:
    """What ``fastavro`` needs for the same records, without making columns of them."""
    parsed = fastavro.parse_schema(ENVELOPE)
    for value in values:
        fastavro.schemaless_reader(io.BytesIO(value[5:]), parsed)


def main(events: int) -> None:
    rng = random.Random(7)
    texts = [event(number, rng) for number in range(events)]
    json_batch = batch_of(texts, rng)
    encode, encode_key, encode_row = _encoder(1, ENVELOPE), _encoder(2, KEY), _encoder(3, ROW)
    values = [encode(_with_bytes(text)) for text in texts]
    keys = [encode_key(json.loads(key)) for key in json_batch.column("key").to_pylist()]
    avro_batch = json_batch.set_column(4, "key", pa.array(keys, pa.binary()))
    avro_batch = avro_batch.set_column(5, "value", pa.array(values, pa.binary()))
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "schemas.json")
        file.write_text(json.dumps({"schemas": {"1": ENVELOPE, "2": KEY, "3": ROW}}))
        avro = DebeziumAvroDecoder(DebeziumPolicies(), AvroOptions(RegistrySettings(file=str(file))))
        decoder = DebeziumJsonDecoder()
        both = {"debezium-json": (decoder, json_batch), "debezium-avro": (avro, avro_batch)}
        for decoder_of, batch in both.values():
            assert sum(c.rows.num_rows for c in decoder_of.decode(batch, {SOURCE: TARGET}).changes) == events
        for what, size in (("JSON", sum(map(len, texts))), ("Avro", sum(map(len, values)))):
            print(f"{size / events:.0f} bytes an event in {what}")
        times = [
            measured(what, events, partial(decoder_of.decode, batch, {SOURCE: TARGET}))
            for what, (decoder_of, batch) in both.items()
        ]
        print(f"{'rate of Avro over that of JSON':60} {times[0] / times[1]:6.2f}")
        flat = UpsertAvroDecoder(UpsertPolicies(), AvroOptions(RegistrySettings(file=str(file))))
        rows = [encode_row(row) for text in texts if (row := _with_bytes(text)["after"]) is not None]
        row_batch = avro_batch.slice(0, len(rows)).set_column(5, "value", pa.array(rows, pa.binary()))
        source = SourceTable(SOURCE.topic, None, SOURCE.schema, SOURCE.table)
        assert sum(c.rows.num_rows for c in flat.decode(row_batch, {source: TARGET}).changes) == len(rows)
        measured("upsert-avro", len(rows), partial(flat.decode, row_batch, {source: TARGET}))
        measured("fastavro alone, one dictionary per record", events, lambda: _one_by_one(values), 1)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
