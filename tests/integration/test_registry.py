"""Schemas from a real registry, Apicurio's, by every name that records have for them."""

from __future__ import annotations

import io
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from sources.changes import RECORD_SCHEMA
from tests.stack.apicurio import running_apicurio
from tests.stack.paths import StackUnavailable
from tests.support.plain_pipeline import TOPIC, PlainPipeline
from tests.support.protobuf_messages import F, class_of, field, file, files_with, framed, named, serialized

pytestmark = pytest.mark.stack

INNER = {"type": "record", "name": "shop.Inner", "fields": [{"name": "k", "type": "int"}]}
OUTER = {"type": "record", "name": "shop.Outer", "fields": [
    {"name": "id", "type": "int"}, {"name": "inner", "type": "shop.Inner"},
]}  # fmt: skip
WHOLE = {**OUTER, "fields": [OUTER["fields"][0], {"name": "inner", "type": INNER}]}
FIELDS = [field("id", 1, F.TYPE_INT32), field("b", 2, F.TYPE_MESSAGE, of=".shop.Base")]
BASE = file([descriptor_pb2.DescriptorProto(name="Base", field=[field("x", 1, F.TYPE_INT64)])], name="base.proto")
MAIN = file([descriptor_pb2.DescriptorProto(name="Row", field=FIELDS)], name="row.proto", imports=["base.proto"])


def avro(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(WHOLE), {"id": number, "inner": {"k": 10 * number}})
    return out.getvalue()


def records(*values: tuple[bytes, dict[str, bytes]]) -> pa.RecordBatch:
    rows = [
        {"topic": TOPIC, "partition": 0, "offset": n, "value": value,
         "headers": [{"key": key, "value": text} for key, text in headers.items()]}
        for n, (value, headers) in enumerate(values)
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def read(directory: Path, form: str, url: str, batch: pa.RecordBatch) -> PlainPipeline:
    options = {form: {"registry": {"url": url, "proxy": "none"}}}
    pipeline = PlainPipeline(directory, options, {"mode": "append"})
    pipeline.run(batch)
    return pipeline


def test_records_name_schemas_of_apicurio(tmp_path: Path) -> None:
    with ExitStack() as stack:
        try:
            registry = stack.enter_context(running_apicurio(tmp_path))
        except StackUnavailable as error:
            pytest.skip(str(error))
        registry.register("inner", json.dumps(INNER))
        reference = {"name": "shop.Inner", "subject": "inner", "version": 1}
        id_ = registry.register("outer", json.dumps(OUTER), references=[reference])
        registry.register("base.proto", serialized(BASE), "PROTOBUF")
        reference = {"name": "base.proto", "subject": "base.proto", "version": 1}
        message_id = registry.register("row", serialized(MAIN), "PROTOBUF", [reference])
        global_id = registry.global_id("outer").to_bytes(8, "big")
        prefix = b"\0" + id_.to_bytes(4, "big")
        found = read(tmp_path / "avro", "avro", registry.url, records(
            (prefix + avro(1), {}), (avro(2), {"apicurio.value.contentId": id_.to_bytes(8, "big")}),
            (avro(3), {"apicurio.value.globalId": global_id}), (b"\0" + global_id + avro(4), {}),
            (b"\0\0\0\3\xe7" + avro(5), {}), (avro(6), {"apicurio.value.globalId": (999).to_bytes(8, "big")}),
        ))  # fmt: skip
        row = class_of(files_with(BASE, MAIN), "shop.Row")
        messages: Any = [row(id=n, b={"x": n << 40}) for n in (1, 2, 3)]
        prefix = b"\0" + message_id.to_bytes(4, "big")
        in_header = {"apicurio.value.contentId": message_id.to_bytes(8, "big"), "apicurio.protobuf.type": b"Row"}
        also = read(tmp_path / "protobuf", "protobuf", registry.url, records(
            (framed(messages[0], message_id), {}), (prefix + named(messages[1]), {}), (named(messages[2]), in_header),
        ))  # fmt: skip

    assert found.rows("id", "inner") == [(n, {"k": 10 * n}) for n in (1, 2, 3, 4)]
    assert {offset: reason.partition(" does not exist")[0] for offset, reason in found.bad.items()} == {
        4: "schema 999", 5: "schema with globalId 999",
    }  # fmt: skip
    assert also.rows("id", "b") == [(n, {"x": n << 40}) for n in (1, 2, 3)]
    assert not Path(also.quarantine.path).exists()
