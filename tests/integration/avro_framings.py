"""A topic of Avro records that name their schemas in every way: ids in the bytes, ids and GUIDs in headers."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from tests.stack.topics import TopicRecord, Topics
from tests.support.avro_topics import encoder
from tests.support.registry_server import RegistryServer

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
name: framed
source:
  kafka: {{ bootstrap_servers: '{servers}', topics: [{topic}] }}
  format: {{ debezium-avro: {{ registry: {{ url: '{url}', proxy: none }} }} }}
checkpoint: {root}/framed-checkpoint
catalog: {{ warehouse: {root}/framed }}
tables:
  - match: {{ schema: public, table: orders }}
    into: lake.orders
"""


def _record(number: int, prefix: bytes, headers: dict[str, bytes], op: str = "c") -> TopicRecord:
    row = {"id": number, "v": f"v{number}"}
    images: dict[str, Any] = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    source = {"db": "shop", "schema": "public", "table": "orders"}
    value = prefix + encoder(ENVELOPE)({**images, "source": source, "op": op})
    key = b"\x00\x00\x00\x00\x01" + encoder(KEY)({"id": number})
    return TopicRecord(key=key, value=value, headers=tuple(headers.items()), partition=0)


def registry() -> RegistryServer:
    """What knows the schemas."""
    schemas = {"1": KEY, "2": ENVELOPE, str(GUID): ENVELOPE}
    return RegistryServer(schemas, global_ids={"7": ENVELOPE}, prefix="/apis/ccompat/v7")


def asked_for() -> set[str]:
    """The paths by which a reader of the topic asks for them."""
    return {
        *(f"/apis/ccompat/v7/schemas/{end}" for end in ("ids/1", "ids/2", f"guids/{GUID}")),
        "/apis/registry/v2/ids/globalIds/7?dereference=true",
    }


def fill(kafka: Topics) -> None:
    """Rows 1 to 4, of which the first one is deleted."""
    by_id = b"\x00\x00\x00\x00\x02"
    kafka.create(TOPIC)
    kafka.produce(TOPIC, [
        _record(1, by_id, {}),
        _record(2, b"", {"__value_schema_id": b"\x01" + GUID.bytes}),
        _record(3, b"", {"apicurio.value.globalId": (7).to_bytes(8, "big"), "apicurio.value.encoding": b"BINARY"}),
        _record(4, b"\x01" + GUID.bytes, {}),
        _record(1, b"", {"apicurio.value.contentId": (2).to_bytes(8, "big")}, op="d"),
    ])  # fmt: skip


def write_framed(root: Path, servers: str, registry_url: str) -> Path:
    file = root / "framed.yaml"
    file.write_text(YAML.format(servers=servers, topic=TOPIC, url=registry_url, root=root))
    return file
