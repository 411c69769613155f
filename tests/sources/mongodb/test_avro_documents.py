"""Documents of MongoDB in envelopes of Avro give the rows that they give in JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

from sources.changes import RECORD_SCHEMA
from tests.support.feed_records import Run
from tests.support.mongodb_events import OID, RULE, TOPIC, Event, change, insert, partial, records

_NULLABLE = ["null", "string"]
_DESCRIPTION = {
    "type": "record", "name": "Description", "fields": [
        {"name": "removedFields", "type": ["null", {"type": "array", "items": "string"}]},
        {"name": "updatedFields", "type": _NULLABLE},
    ],
}  # fmt: skip
_SOURCE = {
    "type": "record", "name": "Source",
    "fields": [{"name": name, "type": "string"} for name in ("connector", "db", "collection")],
}  # fmt: skip
ENVELOPE = {
    "type": "record", "name": "Envelope", "fields": [
        {"name": "before", "type": _NULLABLE}, {"name": "after", "type": _NULLABLE},
        {"name": "updateDescription", "type": ["null", _DESCRIPTION]},
        {"name": "source", "type": _SOURCE}, {"name": "op", "type": "string"},
    ],
}  # fmt: skip
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "string"}]}
EVENTS = [
    insert({"_id": OID, "n": {"$numberInt": "1"}, "s": "x"}),
    partial(OID, {"n": {"$numberInt": "2"}}, ["s"]),
    insert({"_id": "b", "n": {"$numberInt": "3"}}),
    change("d", "b"),
    partial(OID, {"n.x": 1}),
]


def in_avro(event: Event) -> dict[str, bytes]:
    key, value = event
    return {"key": _written(1, KEY, key), "value": _written(2, ENVELOPE, value)}


def _written(schema_id: int, schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return b"\x00" + schema_id.to_bytes(4, "big") + out.getvalue()


def test_documents_in_avro_give_the_rows_that_they_give_in_json(tmp_path: Path) -> None:
    schemas = tmp_path / "schemas.json"
    schemas.write_text(json.dumps({"schemas": {"1": KEY, "2": ENVELOPE}}))
    head = {"topic": TOPIC, "partition": 0, "timestamp": 0, "headers": None}
    rows = [{**head, "offset": offset, **in_avro(event)} for offset, event in enumerate(EVENTS)]
    batch = pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)

    registry: Any = {"registry": {"file": str(schemas)}}
    avro = Run(tmp_path / "avro", "debezium-avro", [batch], RULE, options=registry)
    plain = Run(tmp_path / "json", "debezium-json", [records(*EVENTS)], RULE)

    assert avro.rows("lake.cust", "_id") == plain.rows("lake.cust", "_id")
    assert avro.rows("lake.cust", "_id") == [{"_id": OID["$oid"], "n": 2, "s": None}]
    assert avro.types("lake.cust") == plain.types("lake.cust")
    assert avro.reasons == plain.reasons
    assert [*plain.reasons] == [4]
