"""The Avro schema of a key-value file.

Implements Paimon's mapping of types to Avro. Unions have null first, nested records are named after their place, and
maps whose keys are not texts are arrays of records. The logical type of TIMESTAMP is ``timestamp-*``, that of TIMESTAMP
WITH LOCAL TIME ZONE ``local-timestamp-*``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paimon_table.types import BINARIES, CHARACTERS, TIMESTAMPS, DataField, DataType, Root

_NAMESPACE = "org.apache.paimon.avro.generated"
_COUNT = DataType(Root.INT)
_SIMPLE = {
    Root.BOOLEAN: "boolean",
    Root.TINYINT: "int",
    Root.SMALLINT: "int",
    Root.INT: "int",
    Root.BIGINT: "long",
    Root.FLOAT: "float",
    Root.DOUBLE: "double",
}


def file_schema(fields: Sequence[DataField]) -> dict[str, Any]:
    """The schema of a file with these columns."""
    return {**_record("record", fields), "namespace": _NAMESPACE}


def entry_types(t: DataType) -> tuple[DataType, DataType]:
    """The types of the keys and values of a MAP or MULTISET; the keys of Avro's own maps are never null."""
    key, value = (t.element, _COUNT) if t.root is Root.MULTISET else (t.key, t.value)
    assert key is not None and value is not None
    return (key, value) if is_array_map(t) else (key.with_nullable(False), value)


def is_array_map(t: DataType) -> bool:
    """Whether a MAP or MULTISET is stored as an array of records: Avro's own maps have texts as keys."""
    key = t.key if t.root is Root.MAP else t.element
    return key is None or key.root not in CHARACTERS


def gap(field: DataField) -> str | None:
    """Why a column cannot be stored; None if it can."""
    return _name_gap(field.name) or _type_gap(field.type)


def _name_gap(name: str) -> str | None:
    """Why a name is invalid. Java's Avro allows UTF-16 units that are letters, underscores, or digits after the first
    unit."""

    def is_taken(position: int, c: str) -> bool:
        return c <= "\uffff" and (c == "_" or c.isalpha() or (position > 0 and c.isdecimal()))

    if name and all(is_taken(position, c) for position, c in enumerate(name)):
        return None
    return f"names in avro have only letters, digits and '_' and do not begin with a digit, unlike {name!r}"


def _type_gap(t: DataType) -> str | None:
    if t.root in TIMESTAMPS and (t.precision or 0) > 6:
        return "avro stores timestamps of at most 6 digits"
    if t.root is Root.TIME and (t.precision or 0) > 3:
        return "avro stores times of at most 3 digits"
    names = (_name_gap(f.name) for f in t.fields)
    return next((found for found in (*names, *(_type_gap(part) for _, part in t.parts)) if found), None)


def _record(name: str, fields: Sequence[DataField]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [_field(name, f.name, f.type) for f in fields]}


def _field(record: str, name: str, t: DataType) -> dict[str, Any]:
    field = {"name": name, "type": _type(t, f"{record}_{name}")}
    return {**field, "default": None} if t.nullable else field


def _type(t: DataType, name: str) -> Any:
    """The schema of a type; its records, if it has any, are called ``name``."""
    plain = _not_null(t, name)
    return ["null", plain] if t.nullable else plain


def _not_null(t: DataType, name: str) -> Any:
    match t.root, t.element:
        case Root.ROW, _:
            return _record(name, t.fields)
        case Root.ARRAY, DataType() as element:
            return {"type": "array", "items": _type(element, name)}
        case ((Root.MULTISET | Root.MAP), _):
            return _map(t, name)
        case _:
            return _atomic(t)


def _map(t: DataType, name: str) -> dict[str, Any]:
    key, value = entry_types(t)
    if not is_array_map(t):
        return {"type": "map", "values": _type(value, name)}
    keys = {"name": "key", "type": _type(key, f"{name}_key")}
    entry = {"type": "record", "name": name, "fields": [keys, _field(name, "value", value)]}
    return {"type": "array", "items": entry, "logicalType": "map"}


def _atomic(t: DataType) -> Any:
    precision = t.precision or 0
    if t.root in CHARACTERS:
        return "string"
    if t.root in BINARIES:
        return "bytes"
    match t.root:
        case Root.DECIMAL:
            return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": t.scale}
        case Root.DATE:
            return {"type": "int", "logicalType": "date"}
        case Root.TIME:
            return {"type": "int", "logicalType": "time-millis"}
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            zone = "local-" if t.root is Root.TIMESTAMP_LTZ else ""
            return {"type": "long", "logicalType": f"{zone}timestamp-{'millis' if precision <= 3 else 'micros'}"}
        case _:
            return _SIMPLE[t.root]
