"""Topics with embedded schemas rewritten in Avro, as Kafka Connect's Avro converter writes them."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

from sources.avro.registry_settings import RegistrySettings
from sources.debezium_avro.decoder import DebeziumAvroDecoder
from sources.debezium_avro.options import AvroOptions
from sources.debezium_json.policies import DebeziumPolicies

_TYPES: dict[str, Any] = {
    "int8": {"type": "int", "connect.type": "int8"},
    "int16": {"type": "int", "connect.type": "int16"},
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
}
_LOGICAL = {
    "org.apache.kafka.connect.data.Decimal": "decimal",
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}


def avro_schema(connect: Mapping[str, Any], known: set[str] | None = None) -> Any:
    """The Avro schema that the converter makes of a Connect schema."""
    known = set() if known is None else known
    kind = _avro_type(connect, known)
    if not connect.get("optional"):
        return kind
    return [kind, "null"] if connect.get("default") is not None else ["null", kind]


def _avro_type(connect: Mapping[str, Any], known: set[str]) -> Any:
    match connect["type"]:
        case "struct":
            return _record(connect, known)
        case "array":
            found: Any = {"type": "array", "items": avro_schema(connect["items"], known)}
        case "map":
            found = {"type": "map", "values": avro_schema(connect["values"], known)}
        case kind:
            found = _TYPES[kind]
    found = {"type": found} if isinstance(found, str) else dict(found)
    if connect.get("name"):
        found |= {"connect.name": connect["name"], "connect.version": connect.get("version", 1)}
        parameters = connect.get("parameters") or {}
        if connect["name"] in _LOGICAL:
            found["logicalType"] = _LOGICAL[connect["name"]]
        if "scale" in parameters:
            found |= {"scale": int(parameters["scale"]), "precision": 64}
    if connect.get("parameters"):
        found["connect.parameters"] = connect["parameters"]
    if connect.get("default") is not None:
        found["connect.default"] = connect["default"]
    return found if len(found) > 1 else found["type"]


def _record(connect: Mapping[str, Any], known: set[str]) -> Any:
    name = "".join(c if c.isalnum() or c in "._" else "_" for c in connect.get("name") or "ConnectDefault")
    if name in known:
        return name
    known.add(name)
    fields = []
    for one in connect["fields"]:
        column = {"name": one["field"], "type": avro_schema(one, known)}
        if one.get("optional") or one.get("default") is not None:
            column["default"] = one.get("default")
        fields.append(column)
    record = {"type": "record", "name": name, "fields": fields}
    return record | ({"connect.name": connect["name"]} if connect.get("name") else {})


def avro_value(connect: Mapping[str, Any], value: Any) -> Any:
    """What Avro holds of a value in the form of JsonConverter."""
    if value is None:
        return None
    match connect["type"]:
        case "bytes":
            return base64.b64decode(value)
        case "float" | "double":
            return float(value)
        case "array":
            return [avro_value(connect["items"], item) for item in value]
        case "map":
            return {key: avro_value(connect["values"], item) for key, item in value.items()}
        case "struct":
            return {f["field"]: avro_value(f, value.get(f["field"])) for f in connect["fields"]}
        case _:
            return value


def encoder(schema: Any) -> Callable[[Any], bytes]:
    """From values without logical types to the bytes of a schema; fastavro does not see names that Avro forbids."""
    parsed = fastavro.parse_schema(_plain(schema), _write_hint=False)

    def encode(value: Any) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value)
        return out.getvalue()

    return encode


def _plain(schema: Any) -> Any:
    """The schema without what does not matter for bytes."""
    match schema:
        case str():
            return schema
        case list():
            return [_plain(part) for part in schema]
        case {"type": "record"}:
            fields = [{"name": f["name"], "type": _plain(f["type"])} for f in schema["fields"]]
            space = {"namespace": schema["namespace"]} if "namespace" in schema else {}
            return {"type": "record", "name": schema["name"], **space, "fields": fields}
        case {"type": "array"}:
            return {"type": "array", "items": _plain(schema["items"])}
        case {"type": "map"}:
            return {"type": "map", "values": _plain(schema["values"])}
        case {"type": "enum" | "fixed"}:
            return {key: schema[key] for key in ("type", "name", "namespace", "symbols", "size") if key in schema}
        case _:
            return _plain(schema["type"])


@dataclass
class AvroTopics:
    """Writes keys and values in Confluent's framing, and keeps their schemas by id."""

    schemas: dict[str, Any] = field(default_factory=dict)
    _ids: dict[str, int] = field(default_factory=dict)
    _encoders: dict[int, Callable[[Any], bytes]] = field(default_factory=dict)

    def registered(self, schema: Any) -> int:
        text = json.dumps(schema)
        number = self._ids.setdefault(text, len(self._ids) + 1)
        self.schemas[str(number)] = schema
        return number

    def encoded(self, schema: Any, value: Any) -> bytes:
        """A value behind byte 0 and the id of its schema."""
        number = self.registered(schema)
        if number not in self._encoders:
            self._encoders[number] = encoder(schema)
        return number.to_bytes(5, "big") + self._encoders[number](value)

    def rewritten(self, text: bytes | None) -> bytes | None:
        """A text with an embedded schema, in Avro; a payload that is null has no bytes at all."""
        if text is None:
            return None
        value = json.loads(text)
        if value["payload"] is None:
            return None
        return self.encoded(avro_schema(value["schema"]), avro_value(value["schema"], value["payload"]))

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Records with embedded schemas, in Avro."""
        for name in ("key", "value"):
            written = pa.array([self.rewritten(text) for text in batch.column(name).to_pylist()], pa.binary())
            batch = batch.set_column(batch.schema.get_field_index(name), name, written)
        return batch

    def saved(self, directory: Path) -> RegistrySettings:
        """The settings of a registry that has the schemas so far, in a file."""
        text = json.dumps({"schemas": self.schemas})
        # A process reads a schema once: other schemas have another place.
        file = directory / f"schemas-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
        file.write_text(text)
        return RegistrySettings(file=str(file))

    def decoder(self, directory: Path, policies: DebeziumPolicies | None = None, **options: Any) -> DebeziumAvroDecoder:
        return DebeziumAvroDecoder(policies or DebeziumPolicies(), AvroOptions(self.saved(directory), **options))
