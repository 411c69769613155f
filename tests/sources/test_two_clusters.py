"""Two clusters and two registries in one process: nothing of one is taken for that of the other."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2

from sources.kafka import share_fetching
from sources.kafka.client_properties import librdkafka_properties
from sources.kafka.share_fetching import KafkaShareReader
from tests.support.plain_pipeline import PlainPipeline, plain_batch
from tests.support.protobuf_messages import F, class_of, field, file, files_with, framed, serialized
from tests.support.registry_server import RegistryServer, running_registry


def row(column: str) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}, {"name": column, "type": "int"}]}


def envelope(column: str) -> dict[str, Any]:
    return {"type": "record", "name": "Envelope", "fields": [
        {"name": "before", "type": ["null", row(column)]}, {"name": "after", "type": ["null", "Row"]},
        {"name": "op", "type": "string"},
    ]}  # fmt: skip


def messages(column: str) -> descriptor_pb2.FileDescriptorSet:
    fields = [field("id", 1, F.TYPE_INT32), field(column, 2, F.TYPE_INT32)]
    return files_with(file([descriptor_pb2.DescriptorProto(name="Row", field=fields)]))


def avro(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return struct.pack(">bI", 0, 1) + out.getvalue()


def schemas(form: str, column: str) -> Mapping[str, Any]:
    if form == "protobuf":
        return {"1": {"schemaType": "PROTOBUF", "schema": serialized(messages(column).file[-1])}}
    return {"1": row(column) if form == "avro" else envelope(column)}


def value(form: str, number: int) -> bytes:
    """The same bytes for both registries."""
    if form == "protobuf":
        return framed(class_of(messages("a"), "shop.Row")(id=number, a=10 * number), 1)
    content = {"id": number, "a": 10 * number}
    return (
        avro(row("a"), content)
        if form == "avro"
        else avro(envelope("a"), {"before": None, "after": content, "op": "c"})
    )


@pytest.mark.slow
@pytest.mark.parametrize("form", ["avro", "protobuf", "debezium-avro"])
def test_an_id_is_that_of_the_registry_of_its_pipeline(tmp_path: Path, form: str) -> None:
    servers = [RegistryServer(dict(schemas(form, column))) for column in ("a", "b")]
    with running_registry(servers[0]) as first, running_registry(servers[1]) as second:
        pipelines = [
            PlainPipeline(tmp_path / name, {form: {"registry": {"url": server.url()}}}, {"primary_key": ["id"]})
            for name, server in (("first", first), ("second", second))
        ]
        for number in (1, 2):
            for pipeline in pipelines:
                pipeline.run(plain_batch([({"id": number}, value(form, number))], first=number))

    assert [pipeline.rows() for pipeline in pipelines] == [
        [{"id": n, column: 10 * n} for n in (1, 2)] for column in ("a", "b")
    ]
    assert [len(server.requests) for server in servers] == [1, 1]


def test_a_cluster_has_a_consumer_of_its_own() -> None:
    servers = ("127.0.0.1:9", "127.0.0.1:10")
    readers = [KafkaShareReader(one, librdkafka_properties(one, {}), False, 1.0) for one in servers]
    before = dict(share_fetching._consumers.held)

    found = [share_fetching._consumer(reader)[0] for reader in (*readers, *readers)]

    assert (found[0] is found[2], found[1] is found[3], found[0] is found[1]) == (True, True, False)
    for key in share_fetching._consumers.held.keys() - before.keys():
        share_fetching._consumers.held.pop(key)[0].close()
