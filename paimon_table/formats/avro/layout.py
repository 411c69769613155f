"""The layout of records in the bytes of an Avro file, from the file's own schema.

It supports only the shapes that Paimon writes: unions with null first, no enums, no fixed bytes and no reused named
types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paimon_table.formats.avro.schema import entry_types, is_array_map
from paimon_table.formats.avro.walk import Form, ItemsWalker, RecordWalker, ScalarWalker, Walker
from paimon_table.types import BINARIES, CHARACTERS, INTEGERS, TIMESTAMPS, DataField, DataType, Root

_FORMS = {
    "int": Form.VARINT,
    "long": Form.VARINT,
    "string": Form.TEXT,
    "bytes": Form.TEXT,
    "boolean": Form.BOOLEAN,
    "float": Form.FLOAT,
    "double": Form.DOUBLE,
}
_STORED_AS: Mapping[Root, frozenset[str]] = {
    **dict.fromkeys((*INTEGERS, Root.DATE, Root.TIME, *TIMESTAMPS), frozenset({"int", "long"})),
    **dict.fromkeys(CHARACTERS, frozenset({"string"})),
    **dict.fromkeys((*BINARIES, Root.DECIMAL), frozenset({"bytes"})),
    Root.BOOLEAN: frozenset({"boolean"}),
    Root.FLOAT: frozenset({"float"}),
    Root.DOUBLE: frozenset({"double"}),
}


class UnknownLayout(Exception):
    """Records of this schema, or read as these types, are not supported."""


def record_walker(schema: Any, fields: Sequence[DataField]) -> RecordWalker:
    """A walker over the records of a file. It skips fields that are not wanted; wanted ones may be missing.

    Raises UnknownLayout.
    """
    plain, nullable = _without_null(schema)
    if not isinstance(plain, dict) or plain.get("type") != "record":
        raise UnknownLayout
    walker = _record(plain, nullable, {f.name: f.type for f in fields}, None)
    return RecordWalker(walker.fields, nullable, DataType(Root.ROW, fields=tuple(fields)))


def _walker(schema: Any, t: DataType | None) -> Walker:
    """A walker over values of a schema; without a type it skips them."""
    plain, nullable = _without_null(schema)
    while isinstance(plain, dict) and isinstance(plain["type"], dict):
        plain = plain["type"]
    name = plain["type"] if isinstance(plain, dict) else plain
    if name in _FORMS:
        if t is not None and name not in _STORED_AS.get(t.root, ()):
            raise UnknownLayout
        return ScalarWalker(_FORMS[name], nullable, t)
    match name:
        case "record":
            return _row(plain, nullable, t)
        case "array" | "map":
            return ItemsWalker(_item(plain, name, t), nullable, t)
        case _:
            raise UnknownLayout


def _without_null(schema: Any) -> tuple[Any, bool]:
    """The schema of values that are not null, and whether values may be null."""
    if not isinstance(schema, list):
        return schema, False
    if len(schema) != 2 or schema[0] != "null" or schema[1] == "null":
        raise UnknownLayout
    return schema[1], True


def _row(schema: Any, nullable: bool, t: DataType | None) -> RecordWalker:
    if t is None:
        return _record(schema, nullable, {}, None)
    if t.root is not Root.ROW:
        raise UnknownLayout
    types = {f.name: f.type for f in t.fields}
    if not types.keys() <= {f["name"] for f in schema.get("fields", ())}:
        raise UnknownLayout
    return _record(schema, nullable, types, t)


def _record(schema: Any, nullable: bool, types: Mapping[str, DataType], t: DataType | None) -> RecordWalker:
    fields = [(f["name"], _walker(f["type"], types.get(f["name"]))) for f in schema.get("fields", ())]
    if not fields:
        raise UnknownLayout
    return RecordWalker(fields, nullable, t)


def _item(schema: Any, name: str, t: DataType | None) -> Walker:
    """A walker over the items of an array or the entries of a map."""
    if t is None:
        return _entry(schema, None, None) if name == "map" else _walker(schema["items"], None)
    if t.root is Root.ARRAY and name == "array":
        return _walker(schema["items"], t.element)
    if t.root not in (Root.MAP, Root.MULTISET) or (name == "array") != is_array_map(t):
        raise UnknownLayout
    key, value = entry_types(t)
    return _array_entry(schema["items"], key, value) if name == "array" else _entry(schema, key, value)


def _entry(schema: Any, key: DataType | None, value: DataType | None) -> RecordWalker:
    """A walker over entries of Avro's own maps: a text, then the value."""
    return RecordWalker([("key", _walker("string", key)), ("value", _walker(schema["values"], value))], False, None)


def _array_entry(schema: Any, key: DataType, value: DataType) -> RecordWalker:
    if not isinstance(schema, dict) or [f["name"] for f in schema.get("fields", ())] != ["key", "value"]:
        raise UnknownLayout
    return _record(schema, False, {"key": key, "value": value}, None)
