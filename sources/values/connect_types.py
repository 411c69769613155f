"""Kafka Connect schemas (as JsonConverter embeds them) -> Paimon types and encodings.

Covers the primitive types, Connect's logical types and Debezium's logical types (``io.debezium.time.*``,
``io.debezium.data.*``); an unknown logical type is read as its primitive type. docs/TYPES.md lists the mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from paimon_table.errors import MalformedRecord
from paimon_table.types import TIMESTAMPS, DataField, DataType, Root, bytes_, string
from sources.values.encodings import AUTO, TEXT, Encoding, Kind
from sources.values.json_values import LARGEST_SCALE

MILLIS, MICROS, NANOS = 1000, 1_000_000, 1_000_000_000
_MAX_PRECISION = 38


@dataclass(frozen=True, slots=True)
class ConnectColumn:
    """One field of a Connect struct: its Paimon type, its encoding, and the Arrow type of its JSON form.

    The form is ``pa.null()`` where no Arrow type describes the JSON (maps).
    """

    name: str
    type: DataType
    encoding: Encoding
    form: pa.DataType
    is_optional: bool = False
    """Whether the source's column may be NULL."""
    has_default: bool = False
    """Whether a NULL may arrive as the column's DEFAULT: Debezium's converters put it there by default."""
    default: Any = field(default=None, compare=False)
    """The DEFAULT in the form of the column's values."""
    comment: str | None = field(default=None, compare=False)
    """The documentation of the column."""

    @property
    def is_iso_time(self) -> bool:
        """Whether the values are texts of timestamps whose precision the schema does not state."""
        return self.type.root in TIMESTAMPS and pa.types.is_string(self.form)


@dataclass(frozen=True, slots=True)
class _Mapped:
    type: DataType
    encoding: Encoding
    form: pa.DataType


_JSON = _Mapped(string(), AUTO, pa.null())
"""Any JSON value: CockroachDB embeds documents as they are, and objects of a type without fields."""

_PRIMITIVES: dict[str, _Mapped] = {
    "int8": _Mapped(DataType(Root.TINYINT), AUTO, pa.int64()),
    "int16": _Mapped(DataType(Root.SMALLINT), AUTO, pa.int64()),
    "int32": _Mapped(DataType(Root.INT), AUTO, pa.int64()),
    "int64": _Mapped(DataType(Root.BIGINT), AUTO, pa.int64()),
    "float": _Mapped(DataType(Root.FLOAT), AUTO, pa.float64()),
    "float32": _Mapped(DataType(Root.FLOAT), AUTO, pa.float64()),
    "double": _Mapped(DataType(Root.DOUBLE), AUTO, pa.float64()),
    "float64": _Mapped(DataType(Root.DOUBLE), AUTO, pa.float64()),
    "boolean": _Mapped(DataType(Root.BOOLEAN), AUTO, pa.bool_()),
    "string": _Mapped(string(), TEXT, pa.string()),
    "bytes": _Mapped(bytes_(), Encoding(Kind.BYTES), pa.string()),
    "json": _JSON,
}


def _date() -> _Mapped:
    return _Mapped(DataType(Root.DATE), Encoding(Kind.DATE), pa.int64())


def _time(unit: int) -> _Mapped:
    """Paimon's TIME holds milliseconds; finer times of day become ISO text."""
    target = DataType(Root.TIME, precision=3) if unit == MILLIS else string()
    return _Mapped(target, Encoding(Kind.TIME, unit=unit), pa.int64())


def _timestamp(unit: int, root: Root = Root.TIMESTAMP) -> _Mapped:
    precision = {MILLIS: 3, MICROS: 6, NANOS: 9}[unit]
    return _Mapped(DataType(root, precision=precision), Encoding(Kind.TIMESTAMP, unit=unit), pa.int64())


_UNSIGNED = _Mapped(DataType(Root.DECIMAL, precision=20, scale=0), Encoding(Kind.UNSIGNED), pa.int64())

_LOGICAL: dict[str, _Mapped] = {
    "org.apache.kafka.connect.data.Date": _date(),
    "org.apache.kafka.connect.data.Time": _time(MILLIS),
    "org.apache.kafka.connect.data.Timestamp": _timestamp(MILLIS),
    "io.debezium.time.Date": _date(),
    "io.debezium.time.Time": _time(MILLIS),
    "io.debezium.time.MicroTime": _time(MICROS),
    "io.debezium.time.NanoTime": _time(NANOS),
    "io.debezium.time.Timestamp": _timestamp(MILLIS),
    "io.debezium.time.MicroTimestamp": _timestamp(MICROS),
    "io.debezium.time.NanoTimestamp": _timestamp(NANOS),
    "io.debezium.time.ZonedTimestamp": _Mapped(DataType(Root.TIMESTAMP_LTZ, precision=6), AUTO, pa.string()),
    "io.debezium.time.IsoDate": _Mapped(DataType(Root.DATE), AUTO, pa.string()),
    "avro.timestamp-millis": _timestamp(MILLIS, Root.TIMESTAMP_LTZ),
    "avro.timestamp-micros": _timestamp(MICROS, Root.TIMESTAMP_LTZ),
    "avro.timestamp-nanos": _timestamp(NANOS, Root.TIMESTAMP_LTZ),
    "protobuf.Timestamp": _Mapped(DataType(Root.TIMESTAMP_LTZ, precision=9), AUTO, pa.string()),
    "protobuf.uint64": _UNSIGNED,
    "io.debezium.time.IsoTimestamp": _Mapped(DataType(Root.TIMESTAMP, precision=6), AUTO, pa.string()),
}
"""Logical types that do not map as their primitive type does, except decimals."""


def _decimal(schema: Mapping[str, Any]) -> _Mapped:
    parameters = schema.get("parameters") or {}
    scale = int(parameters.get("scale", 0))
    precision = int(parameters.get("connect.decimal.precision", _MAX_PRECISION))
    if abs(scale) > LARGEST_SCALE:
        raise MalformedRecord(f"embedded schema has a decimal of scale {scale}: no number has so many digits")
    encoding = Encoding(Kind.DECIMAL, scale=scale)
    if scale < 0:
        precision, shown_scale = precision - scale, 0
    else:
        precision, shown_scale = max(precision, scale, 1), scale
    if precision > _MAX_PRECISION:
        return _Mapped(string(), encoding, pa.string())
    return _Mapped(DataType(Root.DECIMAL, precision=precision, scale=shown_scale), encoding, pa.string())


def _number_decimal(schema: Mapping[str, Any]) -> _Mapped:
    """CockroachDB's decimals are JSON numbers; a precision of 0 stands for any."""
    parameters = schema.get("parameters") or {}
    precision, scale = (int(parameters.get(name, 0)) for name in ("precision", "scale"))
    if not 0 < precision <= _MAX_PRECISION or not 0 <= scale <= precision:
        return _JSON
    return _Mapped(DataType(Root.DECIMAL, precision=precision, scale=scale), AUTO, pa.null())


def _variable_decimal(_: Mapping[str, Any]) -> _Mapped:
    form = pa.struct([("scale", pa.int64()), ("value", pa.string())])
    return _Mapped(string(), Encoding(Kind.VARIABLE_DECIMAL), form)


def _array(schema: Mapping[str, Any]) -> _Mapped:
    item = _map_schema(schema["items"])
    form = pa.null() if pa.types.is_null(item.form) else pa.list_(item.form)
    return _Mapped(DataType(Root.ARRAY, element=item.type), Encoding(Kind.ARRAY, element=item.encoding), form)


def _map(schema: Mapping[str, Any]) -> _Mapped:
    key, value = _map_schema(schema["keys"]), _map_schema(schema["values"])
    target = DataType(Root.MAP, key=key.type.with_nullable(False), value=value.type)
    return _Mapped(target, Encoding(Kind.MAP, key=key.encoding, element=value.encoding), pa.null())


def _struct(schema: Mapping[str, Any]) -> _Mapped:
    if not schema.get("fields"):
        return _JSON
    columns = struct_columns(schema)
    fields = tuple(DataField(-1, c.name, c.type) for c in columns)
    encoding = Encoding(Kind.STRUCT, fields=tuple((c.name, c.encoding) for c in columns))
    mappable = columns and not any(pa.types.is_null(c.form) for c in columns)
    form = pa.struct([(c.name, c.form) for c in columns]) if mappable else pa.null()
    return _Mapped(DataType(Root.ROW, fields=fields), encoding, form)


_BUILDERS: dict[str, Callable[[Mapping[str, Any]], _Mapped]] = {"array": _array, "map": _map, "struct": _struct}
_NAMED_BUILDERS: dict[str, Callable[[Mapping[str, Any]], _Mapped]] = {
    "org.apache.kafka.connect.data.Decimal": _decimal,
    "io.debezium.data.VariableScaleDecimal": _variable_decimal,
}


_SOURCE_TYPE = "__debezium.source.column.type"
"""Schema parameter with the type of the source column; the connector's ``column.propagate.source.type`` sets it."""


def _is_unsigned_long(schema: Mapping[str, Any]) -> bool:
    """Whether the field is a BIGINT UNSIGNED of MySQL or MariaDB, which is written as a signed number by default."""
    if schema.get("type") != "int64" or schema.get("name") is not None:
        return False
    source_type = str((schema.get("parameters") or {}).get(_SOURCE_TYPE, "")).upper().split()
    return source_type[:1] in (["BIGINT"], ["SERIAL"]) and ("UNSIGNED" in source_type or source_type[0] == "SERIAL")


def _map_schema(schema: Mapping[str, Any]) -> _Mapped:
    name, primitive = schema.get("name"), schema.get("type")
    if _is_unsigned_long(schema):
        return _UNSIGNED
    if name in _NAMED_BUILDERS:
        return _NAMED_BUILDERS[name](schema)
    if name == "decimal" and primitive == "float64":
        return _number_decimal(schema)
    if name in _LOGICAL:
        return _LOGICAL[name]
    if primitive in _BUILDERS:
        return _BUILDERS[primitive](schema)
    if primitive in _PRIMITIVES:
        return _PRIMITIVES[primitive]
    raise MalformedRecord(f"embedded schema has an unknown type {primitive!r}: use Kafka Connect's JsonConverter")


def struct_columns(schema: Mapping[str, Any]) -> tuple[ConnectColumn, ...]:
    """The fields of a struct schema, all nullable, in order. Raises MalformedRecord for anything else."""
    try:
        columns = []
        for f in schema["fields"]:
            mapped = _map_schema(f)
            default = f.get("default")
            nullability = (f.get("optional") is True, default is not None, default)
            doc = f.get("doc")
            comment = doc if isinstance(doc, str) and doc else None
            columns.append(
                ConnectColumn(str(f["field"]), mapped.type, mapped.encoding, mapped.form, *nullability, comment)
            )
        return tuple(columns)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MalformedRecord(f"embedded schema is not a Kafka Connect struct: {error!r}") from error
