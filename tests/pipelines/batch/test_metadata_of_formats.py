"""Every metadata column over every format of records: its value, or a refusal by name where no record tells it."""

from __future__ import annotations

import datetime as dt
import io
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from paimon_table.errors import ConfigError
from pipelines.config.config_file import load_pipeline
from pipelines.tables.tables import PipelineTables
from sources.changes import RECORD_SCHEMA
from sources.expressions.rule_words import METADATA
from sources.formats import FORMATS
from tests.support.feed_records import canal, dms, golden_gate, maxwell
from tests.support.local_batches import processed, shop_config, task_settings
from tests.support.protobuf_messages import class_of, files_with, order

TOPIC = "eu.shop.public.orders"
AT_MS = 1_714_557_600_000
MOMENT = dt.datetime.fromtimestamp(AT_MS / 1000, dt.UTC)
ROW = {"id": 1, "v": "a"}
COMMON = {
    "topic": TOPIC, "partition": 3, "offset": 7, "timestamp": dt.datetime.fromtimestamp(1, dt.UTC), "key": '{"id": 1}',
    "headers": "abc", "database": "shop", "schema": "public", "table": "orders", "ingested_at": True,
}  # fmt: skip
PLACE = {"position": "990:1000", "transaction": "7", "total_order": 3, "data_collection_order": 2}
SOURCE = {
    "connector": "postgresql", "db": "shop", "schema": "public", "table": "orders", "ts_ms": AT_MS, "lsn": 1000,
    "sequence": '["990", "1000"]',
}  # fmt: skip
TRANSACTION = {"id": "7", "total_order": 3, "data_collection_order": 2}
ENVELOPE = {"before": None, "after": ROW, "source": SOURCE, "op": "c", "transaction": TRANSACTION}


def _record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


AVRO_ROW = _record("Value", id="int", v="string")
AVRO_ENVELOPE = _record(
    "Envelope",
    before=["null", AVRO_ROW], after=["null", "Value"], op="string",
    source=_record("Source", **{n: "long" if isinstance(v, int) else "string" for n, v in SOURCE.items()}),
    transaction=["null", _record("Block", id="string", total_order="long", data_collection_order="long")],
)  # fmt: skip


def avro(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return struct.pack(">bI", 0, 1) + out.getvalue()


def dms_in_transaction() -> Any:
    record = dms("insert", ROW)
    record["metadata"] |= {"transaction-id": 87978110091475, "transaction-record-id": 4, "stream-position": "b:1:2"}
    return record


def message() -> bytes:
    data: bytes = class_of(files_with(order()), "shop.Order")(id=1).SerializeToString()
    return data


FLAT = {
    **ROW, "__op": "c", "__source_db": "shop", "__source_schema": "public", "__source_table": "orders",
    "__source_ts_ms": AT_MS, "__source_lsn": 1000, "__source_sequence": SOURCE["sequence"],
    **{f"__transaction_{name}": value for name, value in TRANSACTION.items()},
}  # fmt: skip
AVRO_FLAT = _record("Value", **{n: "long" if isinstance(v, int) else "string" for n, v in FLAT.items()})
OF_EVENT = {"op": "c", "source_time": MOMENT, **PLACE}
RECORDS: Mapping[str, tuple[Any, dict[str, Any]]] = {
    "debezium-json": (ENVELOPE, OF_EVENT),
    "debezium-avro": (avro(AVRO_ENVELOPE, ENVELOPE), OF_EVENT),
    "upsert-json": (FLAT, OF_EVENT),
    "upsert-avro": (avro(AVRO_FLAT, FLAT), OF_EVENT),
    "canal-json": (canal("INSERT", {"id": "1", "v": "a"}), {"op": "INSERT", "source_time": MOMENT, "schema": None}),
    "maxwell-json": (
        maxwell("insert", ROW, position="bin.01:44", xoffset=2, primary_key_columns=["id"]),
        {"op": "insert", "source_time": MOMENT, "position": "bin.01:44", "transaction": "5", "total_order": 2,
         "schema": None},
    ),
    "ogg-json": (
        golden_gate("I", None, {"ID": 1, "V": "a"}, xid="1.2.3"),
        {"op": "I", "source_time": MOMENT, "position": "00000000000000002928", "transaction": "1.2.3",
         "database": "SHOP", "schema": "SHOP", "table": "ORDERS"},
    ),
    "dms-json": (
        dms_in_transaction(),
        {"op": "insert", "source_time": MOMENT + dt.timedelta(milliseconds=210), "transaction": "87978110091475",
         "total_order": 4, "position": "b:1:2", "schema": "shop"},
    ),
    "json": (ROW, {}),
    "avro": (avro(AVRO_ROW, ROW), {}),
    "csv": (b"1,a", {}),
    "protobuf": (message(), {}),
    "auto": (ENVELOPE, OF_EVENT),
}  # fmt: skip


def form_of(name: str, directory: Path) -> object:
    """The format with what it cannot do without."""
    schemas = directory / "schemas.json"
    written = {"debezium-avro": AVRO_ENVELOPE, "upsert-avro": AVRO_FLAT}.get(name, AVRO_ROW)
    schemas.write_text(json.dumps({"schemas": {"1": written}}))
    files = directory / "shop.desc"
    files.write_bytes(files_with(order()).SerializeToString())
    options: dict[str, dict[str, object]] = {
        "debezium-avro": {"registry": {"file": str(schemas)}},
        "upsert-avro": {"registry": {"file": str(schemas)}},
        "avro": {"registry": {"file": str(schemas)}},
        "csv": {"columns": ["id", "v"]},
        "protobuf": {"descriptor_file": str(files), "message": "shop.Order"},
    }
    return {name: options[name]} if name in options else name


def test_the_table_has_every_format() -> None:
    assert RECORDS.keys() == FORMATS.keys()


@pytest.mark.parametrize("name", FORMATS)
def test_metadata_is_what_the_record_tells(tmp_path: Path, name: str) -> None:
    told = [m for m in METADATA if m not in FORMATS[name].untold]
    shown = {"headers": "$headers['trace']", "ingested_at": "$ingested_at IS NOT NULL"}
    add = {f"m_{m}": shown.get(m, f"${m}") for m in told}
    key = "ID" if name == "ogg-json" else "id"
    rule: dict[str, object] = {
        "match": {"topic": ".*"}, "into": "lake.t", "primary_key": [key],
        "columns": {"keep": [key], "types": {key: "BIGINT"}, "add": add},
    }  # fmt: skip
    source = {"files": {"path": str(tmp_path)}, "format": form_of(name, tmp_path)}
    config = shop_config(tmp_path, [rule], {"bucket": "1"}, source=source)
    value, own = RECORDS[name]
    record = {
        "topic": TOPIC, "partition": 3, "offset": 7, "timestamp": 1_000_000, "key": b'{"id": 1}',
        "value": value if isinstance(value, bytes) else json.dumps(value).encode(),
        "headers": [{"key": "trace", "value": b"abc"}],
    }  # fmt: skip
    tables = PipelineTables(config, "tidemark-shop-test")

    batch = pa.RecordBatch.from_pylist([record], schema=RECORD_SCHEMA)
    processed(tables, [batch], task_settings(tmp_path, decoder=config.decoder))

    (row,) = tables.sinks["lake.t"].table.to_arrow().to_pylist()
    assert {m: row[f"m_{m}"] for m in told} == {**COMMON, **own}


@pytest.mark.parametrize(("name", "untold"), [(name, m) for name, form in FORMATS.items() for m in sorted(form.untold)])
def test_metadata_that_no_record_tells_is_refused_by_name(tmp_path: Path, name: str, untold: str) -> None:
    form = json.dumps(form_of(name, tmp_path))
    (tmp_path / "shop.yaml").write_text(
        f"""version: 1
name: shop
source: {{ files: {{ path: dumps }}, format: {form} }}
checkpoint: ck
catalog: {{ warehouse: lake }}
tables:
  - match: {{ topic: t }}
    into: lake.t
    primary_key: [id]
    columns: {{ add: {{ m: "upper(CAST(${untold} AS VARCHAR))" }} }}
"""
    )

    with pytest.raises(ConfigError, match=rf"yaml:10:23: .*of the format {name} do not have \${untold}; they have"):
        load_pipeline(tmp_path / "shop.yaml")
