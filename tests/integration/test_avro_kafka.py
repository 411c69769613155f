"""Avro records through a real broker: ids in the bytes, ids and GUIDs in headers, and a registry over HTTP."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from paimon_table import Table
from tests.stack.topics import TopicRecord, Topics
from tests.support.avro_topics import encoder
from tests.support.pipeline_run import run_once
from tests.support.registry_server import RegistryServer, running_registry

pytestmark = [pytest.mark.stack, pytest.mark.spark]

TOPIC = "avrohead.public.orders"
GUID = uuid.UUID("89791762-2336-4186-9674-299b90a802e2")
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}
ROW = {"type": "record", "name": "Value", "fields": [
    {"name": "id", "type": "int"}, {"name": "v", "type": ["null", "string"], "default": None},
]}  # fmt: skip
SOURCE = {"type": "record", "name": "Source", "fields": [
    {"name": name, "type": "string"} for name in ("db", "schema", "table")
]}  # fmt: skip
ENVELOPE = {"type": "record", "name": "Envelope", "fields": [
    {"name": "before", "type": ["null", ROW]}, {"name": "after", "type": ["null", "Value"]},
    {"name": "source", "type": SOURCE}, {"name": "op", "type": "string"},
]}  # fmt: skip
YAML = """\
version: 1
name: shop
source:
  kafka: {{ bootstrap_servers: '{servers}', topics: [{topic}] }}
  format: {{ debezium-avro: {{ registry: {{ url: '{url}', proxy: none }} }} }}
checkpoint: {root}/checkpoint
catalog: {{ warehouse: {root}/warehouse }}
tables:
  - match: {{ schema: public, table: orders }}
    into: lake.orders
"""


def record(number: int, prefix: bytes, headers: dict[str, bytes], op: str = "c") -> TopicRecord:
    row = {"id": number, "v": f"v{number}"}
    images: dict[str, Any] = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    source = {"db": "shop", "schema": "public", "table": "orders"}
    value = prefix + encoder(ENVELOPE)({**images, "source": source, "op": op})
    key = b"\x00\x00\x00\x00\x01" + encoder(KEY)({"id": number})
    return TopicRecord(key=key, value=value, headers=tuple(headers.items()), partition=0)


def test_records_of_every_framing_come_from_one_topic(tmp_path: Path, kafka: Topics) -> None:
    by_id = b"\x00\x00\x00\x00\x02"
    kafka.create(TOPIC)
    kafka.produce(TOPIC, [
        record(1, by_id, {}),
        record(2, b"", {"__value_schema_id": b"\x01" + GUID.bytes}),
        record(3, b"", {"apicurio.value.globalId": (7).to_bytes(8, "big"), "apicurio.value.encoding": b"BINARY"}),
        record(4, b"\x01" + GUID.bytes, {}),
        record(1, b"", {"apicurio.value.contentId": (2).to_bytes(8, "big")}, op="d"),
    ])  # fmt: skip
    schemas = {"1": KEY, "2": ENVELOPE, str(GUID): ENVELOPE}
    server = RegistryServer(schemas, global_ids={"7": ENVELOPE}, prefix="/apis/ccompat/v7")
    with running_registry(server):
        file = tmp_path / "shop.yaml"
        file.write_text(YAML.format(servers=kafka.bootstrap_servers, topic=TOPIC, url=server.url(), root=tmp_path))

        done = run_once(file)

    assert done.returncode == 0, done.stderr
    stored = Table.open(f"{tmp_path}/warehouse/lake.db/orders").to_arrow().to_pylist()
    assert sorted((row["id"], row["v"]) for row in stored) == [(2, "v2"), (3, "v3"), (4, "v4")]
    assert not (tmp_path / "checkpoint-quarantine").exists()
    assert {path for path, _ in server.requests} == {
        *(f"/apis/ccompat/v7/schemas/{end}" for end in ("ids/1", "ids/2", f"guids/{GUID}")),
        "/apis/registry/v2/ids/globalIds/7?dereference=true",
    }
