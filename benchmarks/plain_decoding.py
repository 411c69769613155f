"""Time of one core to decode plain rows of each format, compared with Debezium's JSON of the same rows.

python -m benchmarks.plain_decoding [EVENTS]
"""

from __future__ import annotations

import csv
import io
import json
import random
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fastavro
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from benchmarks.feed_decoding import Run, compare, decoding, row
from benchmarks.json_decoding import SOURCE as DEBEZIUM_SOURCE
from benchmarks.json_decoding import TARGET, TOPIC, TYPES, batch_of, event
from paimon_table.types import parse_type
from sources.changes import SourceTable
from sources.decode_target import DecodeTarget

SOURCE = SourceTable.of_topic(TOPIC)
COLUMNS = TYPES | {"placed_at": "TIMESTAMP(6)"}
AVRO_TYPES = {"BIGINT": "long", "INT": "int", "BOOLEAN": "boolean"}
_F = descriptor_pb2.FieldDescriptorProto
PROTO_TYPES = {"BIGINT": _F.TYPE_INT64, "INT": _F.TYPE_INT32, "BOOLEAN": _F.TYPE_BOOL}


def avro_schema() -> dict[str, Any]:
    fields = [{"name": n, "type": ["null", AVRO_TYPES.get(t, "string")]} for n, t in COLUMNS.items()]
    return {"type": "record", "name": "Order", "fields": fields}


def avro(schema: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], bytes]:
    parsed = fastavro.parse_schema(dict(schema))

    def encode(value: Mapping[str, Any]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value)
        return b"\x00\x00\x00\x00\x01" + out.getvalue()

    return encode


def descriptors() -> descriptor_pb2.FileDescriptorSet:
    message = descriptor_pb2.DescriptorProto(name="Order")
    for number, (name, t) in enumerate(COLUMNS.items(), 1):
        kind = PROTO_TYPES.get(t, _F.TYPE_STRING)
        message.field.add(
            name=name, number=number, type=kind, label=_F.LABEL_OPTIONAL, proto3_optional=True, oneof_index=number - 1
        )
        message.oneof_decl.add(name=f"_{name}")
    file = descriptor_pb2.FileDescriptorProto(name="o.proto", package="shop", syntax="proto3", message_type=[message])
    return descriptor_pb2.FileDescriptorSet(file=[file])


def protobuf(files: descriptor_pb2.FileDescriptorSet) -> Callable[[Mapping[str, Any]], bytes]:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(files.file[0])
    cls: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))

    def encode(value: Mapping[str, Any]) -> bytes:
        data: bytes = cls(**{name: v for name, v in value.items() if v is not None}).SerializeToString()
        return data

    return encode


def line(value: Mapping[str, Any]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(str(v).lower() if isinstance(v, bool) else v for v in value.values())
    return out.getvalue().encode()


def runs(events: int, directory: Path) -> dict[str, Run]:
    """One decoding of as many rows for each format, Debezium's JSON first."""
    rng = random.Random(7)
    found = {"debezium-json": decoding(
        "debezium-json", batch_of([event(n, rng) for n in range(events)], rng), {DEBEZIUM_SOURCE: TARGET}
    )}  # fmt: skip
    rows = [row(rng.randrange(200_000), rng) for _ in range(events)]
    rows = [{name: str(v) if name == "updated_at" else v for name, v in one.items()} for one in rows]
    (directory / "s.json").write_text(json.dumps({"schemas": {"1": avro_schema()}}))
    (directory / "o.desc").write_bytes(descriptors().SerializeToString())
    makers: dict[str, tuple[Callable[[Mapping[str, Any]], bytes], dict[str, Any]]] = {
        "json": (lambda one: json.dumps(one, separators=(",", ":"), ensure_ascii=False).encode(), {}),
        "avro": (avro(avro_schema()), {"registry": {"file": str(directory / "s.json")}}),
        "csv": (line, {"columns": tuple(COLUMNS)}),
        "protobuf": (protobuf(descriptors()), {"descriptor_file": str(directory / "o.desc"), "message": "shop.Order"}),
    }
    target = DecodeTarget(
        tuple((name, parse_type(t)) for name, t in COLUMNS.items()), ("id",), declared=frozenset(COLUMNS)
    )
    for name, (make, options) in makers.items():
        values = [make(one) for one in rows]
        found[name] = decoding(name, batch_of(values, rng), {SOURCE: target}, options)
        print(f"{name}: {sum(map(len, values)) / events:.0f} bytes an event")
    return found


def main(events: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        compare(runs(events, Path(directory)), events)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 25_000)
