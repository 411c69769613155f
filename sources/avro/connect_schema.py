"""Translates Avro schemas of Kafka Connect's converters, with what they say beyond the Avro type, to Connect schemas.

``connect.name`` gives the meaning, else Avro's ``logicalType`` does. ``connect.type`` gives the width of a whole
number, ``connect.parameters`` what else Connect knows. The result has the form that JsonConverter embeds, so both
formats give the same columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sources.avro.column_names import column_names, parameters
from sources.avro.writer_schema import AvroKind, Node, NodeField

_TYPES = {
    AvroKind.BOOLEAN: "boolean",
    AvroKind.INT: "int32",
    AvroKind.LONG: "int64",
    AvroKind.FLOAT: "float",
    AvroKind.DOUBLE: "double",
    AvroKind.BYTES: "bytes",
    AvroKind.FIXED: "bytes",
    AvroKind.STRING: "string",
    AvroKind.ENUM: "string",
}
_NARROW = {"int8": AvroKind.INT, "int16": AvroKind.INT}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_OF_NUMBERS = {
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "timestamp-nanos": "io.debezium.time.NanoTimestamp",
    "local-timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
    "local-timestamp-nanos": "io.debezium.time.NanoTimestamp",
}
"""Avro's logical types of whole numbers, each with the Connect name of the same meaning."""
_INSTANTS = {name: f"avro.{name}" for name in ("timestamp-millis", "timestamp-micros", "timestamp-nanos")}
"""The meaning of these types if no database wrote them: instants, whatever the time zone."""
_MOST_PRECISION = 38


def connect_struct(record: Node, *, is_plain: bool = False) -> dict[str, Any]:
    """The Connect schema of a record, with one field per column.

    ``is_plain``: times have the meaning that Avro gives them. Times that a connector writes have the meaning of its
    database, unless the connector names a meaning.
    """
    named = zip(column_names(record), record.fields, strict=True)
    return {"type": "struct", "fields": [_field(name, field, is_plain) for name, field in named]}


def _field(name: str, field: NodeField, is_plain: bool) -> dict[str, Any]:
    schema = _schema(field.node, is_plain)
    default = field.properties.get("default", schema.get("default"))
    return {**schema, "field": name, "default": default, "doc": field.properties.get("doc")}


def _schema(node: Node, is_plain: bool) -> dict[str, Any]:
    value = node.value
    if value is None or value.is_opaque or value.kind is AvroKind.NULL:
        return {"type": "string", "optional": True}
    schema = _of_value(value, is_plain) | {"optional": node.is_optional}
    default = value.properties.get("connect.default")
    return schema if default is None else schema | {"default": default}


def _of_value(node: Node, is_plain: bool) -> dict[str, Any]:
    match node.kind:
        case AvroKind.ARRAY:
            return {"type": "array", "items": _schema(node.parts[0], is_plain)}
        case AvroKind.MAP:
            return {"type": "map", "keys": {"type": "string"}, "values": _schema(node.parts[0], is_plain)}
        case AvroKind.RECORD:
            name = node.properties.get("connect.name", node.name)
            return connect_struct(node, is_plain=is_plain) | {"name": name}
    connect_type = node.properties.get("connect.type")
    kind = connect_type if _NARROW.get(str(connect_type)) is node.kind else _TYPES[node.kind]
    return {"type": kind, "name": _name(node, is_plain), "parameters": _parameters(node)}


def _name(node: Node, is_plain: bool) -> Any:
    name, logical = node.properties.get("connect.name"), node.properties.get("logicalType")
    is_binary = node.kind in (AvroKind.BYTES, AvroKind.FIXED)
    if name == _DECIMAL or (name is None and logical == "decimal"):
        return _DECIMAL if is_binary else None
    if name is None and node.kind in (AvroKind.INT, AvroKind.LONG):
        names = {**_OF_NUMBERS, **_INSTANTS} if is_plain else _OF_NUMBERS
        return names.get(logical) if isinstance(logical, str) else None
    return name


def _parameters(node: Node) -> Mapping[str, Any]:
    """Kafka Connect's parameters, plus those that only Avro states about a decimal."""
    found = dict(parameters(node.properties))
    if "scale" not in found and isinstance(node.properties.get("scale"), int):
        found["scale"] = node.properties["scale"]
        precision = node.properties.get("precision")
        if isinstance(precision, int) and 0 < precision <= _MOST_PRECISION:
            found.setdefault("connect.decimal.precision", precision)
    return found
