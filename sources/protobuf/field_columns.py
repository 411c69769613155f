"""The fields of a message type as columns: the Kafka Connect schema of each, and many values of it at once.

For a field without presence, a missing value and the default are the same on the wire: the column gets the default,
never NULL. Fields with presence (``optional``, ``oneof``, messages, wrappers, all of proto2) are NULL if they are not
set.

A number that an enum has no name for becomes its text. The library separates unknown numbers of a closed enum (proto2)
from other values and loses their place. So a list or map with such a number cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.unknown_fields import UnknownFieldSet

Values: TypeAlias = Sequence[Any]
"""Values of one field, None if there is none."""

Schema: TypeAlias = Mapping[str, Any]
"""A Kafka Connect schema."""


@dataclass(frozen=True, slots=True)
class ValueColumn:
    """How values of one type become an array."""

    schema: Schema
    form: pa.DataType
    array: Callable[[Values], pa.Array]


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """How a field of many messages becomes an array; ``array`` takes the messages, None if there is none."""

    name: str
    schema: Schema
    form: pa.DataType
    array: Callable[[Values], pa.Array]


def field_columns(message: Descriptor, around: tuple[Descriptor, ...] = ()) -> tuple[FieldColumn, ...]:
    """The columns of a message type, in the order of its fields."""
    return tuple(_field(field, (*around, message)) for field in message.fields)


def _field(field: FieldDescriptor, around: tuple[Descriptor, ...]) -> FieldColumn:
    name = field.name
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        return _told_whole(_map(name, kind, around), field, kind.fields_by_name["value"].enum_type)
    value = _value(field, around)
    if field.is_repeated:
        return _told_whole(_repeated(name, value), field, field.enum_type)
    if field.enum_type is not None and field.enum_type.is_closed:
        return FieldColumn(name, value.schema, value.form, lambda ms: _closed_names(field, value, ms))
    if field.has_presence:

        def present(messages: Values) -> pa.Array:
            return value.array([getattr(m, name) if m is not None and m.HasField(name) else None for m in messages])

        return FieldColumn(name, value.schema, value.form, present)

    def always(messages: Values) -> pa.Array:
        return value.array([None if m is None else getattr(m, name) for m in messages])

    return FieldColumn(name, value.schema, value.form, always)


def _closed_names(field: FieldDescriptor, value: ValueColumn, messages: Values) -> pa.Array:
    """Values of a closed enum; the library stores unknown numbers separately, as unknown fields.

    Raises ValueError if a message has both.
    """
    is_set = [m is not None and m.HasField(field.name) for m in messages]
    names = value.array([getattr(m, field.name) if has else None for m, has in zip(messages, is_set, strict=True)])
    others = [None if m is None else _number_aside(m, field.number) for m in messages]
    if all(number is None for number in others):
        return names
    if any(number is not None and has for number, has in zip(others, is_set, strict=True)):
        raise ValueError(f"field {field.name} has several values, one of them unknown")
    return pc.coalesce(names, pa.array([None if n is None else str(n) for n in others], pa.string()))


def _number_aside(message: Any, number: int) -> int | None:
    """The last number of an enum's field that the library did not accept."""
    found = [one.data for one in UnknownFieldSet(message) if one.field_number == number and one.wire_type == 0]
    if not found:
        return None
    low = int(found[-1]) & 0xFFFFFFFF
    return low - (1 << 32) if low >= 1 << 31 else low


def _told_whole(column: FieldColumn, field: FieldDescriptor, enum: EnumDescriptor | None) -> FieldColumn:
    """A list or map, which raises ValueError for messages whose values of a closed enum are not all known."""
    if enum is None or not enum.is_closed:
        return column

    def array(messages: Values) -> pa.Array:
        for message in messages:
            if message is not None and any(one.field_number == field.number for one in UnknownFieldSet(message)):
                raise ValueError(f"field {field.name} has a number that the enum {enum.full_name} does not know")
        return column.array(messages)

    return FieldColumn(column.name, column.schema, column.form, array)


def _repeated(name: str, value: ValueColumn) -> FieldColumn:
    def array(messages: Values) -> pa.Array:
        lists = [() if m is None else getattr(m, name) for m in messages]
        items = value.array([item for items in lists for item in items])
        return pa.ListArray.from_arrays(_offsets(lists), items, mask=_missing(messages))

    return FieldColumn(name, {"type": "array", "items": value.schema}, pa.list_(value.form), array)


def _map(name: str, entry: Descriptor, around: tuple[Descriptor, ...]) -> FieldColumn:
    key, value = (_value(entry.fields_by_name[part], around) for part in ("key", "value"))

    def array(messages: Values) -> pa.Array:
        maps = [{} if m is None else getattr(m, name) for m in messages]
        pairs = [pair for entries in maps for pair in sorted(entries.items())]
        keys, values = key.array([k for k, _ in pairs]), value.array([v for _, v in pairs])
        return pa.MapArray.from_arrays(_offsets(maps), keys, values, mask=_missing(messages))

    return FieldColumn(
        name, {"type": "map", "keys": key.schema, "values": value.schema}, pa.map_(key.form, value.form), array
    )


def _offsets(parts: Sequence[Any]) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum([len(part) for part in parts], dtype=np.int64)]).astype(np.int32))


def _missing(messages: Values) -> pa.Array | None:
    missing = [m is None for m in messages]
    return pa.array(missing, pa.bool_()) if any(missing) else None


# ---------------------------------------------------------------- values


def _value(field: FieldDescriptor, around: tuple[Descriptor, ...]) -> ValueColumn:
    if field.enum_type is not None:
        return _enum(field.enum_type)
    if field.message_type is not None:
        return _message(field.message_type, around)
    return _SCALARS[field.cpp_type if field.type != FieldDescriptor.TYPE_BYTES else _BYTES]


def _of_type(connect: Schema, form: pa.DataType) -> ValueColumn:
    return ValueColumn(connect, form, lambda values: pa.array(values, form))


def _unsigned(values: Values) -> pa.Array:
    return pa.array(values, pa.uint64()).view(pa.int64())


def _floats(values: Values) -> pa.Array:
    # By way of the text: 1.1 stays 1.1.
    return pa.array(values, pa.float32()).cast(pa.string()).cast(pa.float64())


_BYTES = -1
_SCALARS: Mapping[int, ValueColumn] = {
    FieldDescriptor.CPPTYPE_INT32: _of_type({"type": "int32"}, pa.int64()),
    FieldDescriptor.CPPTYPE_UINT32: _of_type({"type": "int64"}, pa.int64()),
    FieldDescriptor.CPPTYPE_INT64: _of_type({"type": "int64"}, pa.int64()),
    FieldDescriptor.CPPTYPE_UINT64: ValueColumn({"type": "int64", "name": "protobuf.uint64"}, pa.int64(), _unsigned),
    FieldDescriptor.CPPTYPE_FLOAT: ValueColumn({"type": "float"}, pa.float64(), _floats),
    FieldDescriptor.CPPTYPE_DOUBLE: _of_type({"type": "double"}, pa.float64()),
    FieldDescriptor.CPPTYPE_BOOL: _of_type({"type": "boolean"}, pa.bool_()),
    FieldDescriptor.CPPTYPE_STRING: _of_type({"type": "string"}, pa.string()),
    _BYTES: _of_type({"type": "bytes"}, pa.binary()),
}


def _enum(kind: EnumDescriptor) -> ValueColumn:
    names = {value.number: value.name for value in reversed(kind.values)}  # of aliases the first one

    def array(values: Values) -> pa.Array:
        return pa.array([None if v is None else names.get(v, str(v)) for v in values], pa.string())

    return ValueColumn({"type": "string"}, pa.string(), array)


def _message(kind: Descriptor, around: tuple[Descriptor, ...]) -> ValueColumn:
    well_known = _WELL_KNOWN.get(kind.full_name)
    if well_known is not None:
        return well_known
    if kind.full_name in _WRAPPERS:
        inner = _value(kind.fields_by_name["value"], around)
        return ValueColumn(
            inner.schema, inner.form, lambda values: inner.array([None if v is None else v.value for v in values])
        )
    if kind in around or not kind.fields:
        return _JSON
    columns = field_columns(kind, around)
    fields = [pa.field(column.name, column.form) for column in columns]

    def array(values: Values) -> pa.Array:
        return pa.StructArray.from_arrays([c.array(values) for c in columns], fields=fields, mask=_missing(values))

    struct = {"type": "struct", "fields": [{**column.schema, "field": column.name} for column in columns]}
    return ValueColumn(struct, pa.struct(fields), array)


_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_FIRST_SECOND, _LAST_SECOND = -62135596800, 253402300799
"""The years 1 and 9999, which bound the moments of ``google.protobuf.Timestamp``."""


def _moments(values: Values) -> pa.Array:
    """ISO texts; a value that is not a moment gives a text that says so, which no time type accepts."""
    seconds = [0 if v is None or not _is_moment(v) else v.seconds for v in values]
    nanos = pa.array([0 if v is None else v.nanos for v in values], pa.int64())
    days = pc.replace_substring(pa.array(seconds, pa.int64()).cast(pa.timestamp("s")).cast(pa.string()), " ", "T")
    digits = pc.utf8_lpad(nanos.cast(pa.string()), 9, "0")
    texts = pc.binary_join_element_wise(days, digits, ".")
    texts = pc.binary_join_element_wise(pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), "."), "Z", "")
    odd = [None if v is None or _is_moment(v) else f"{v.seconds} seconds and {v.nanos} nanoseconds" for v in values]
    texts = pc.coalesce(pa.array(odd, pa.string()), texts)
    missing = _missing(values)
    return texts if missing is None else pc.if_else(missing, pa.scalar(None, pa.string()), texts)


def _is_moment(value: Any) -> bool:
    return bool(_FIRST_SECOND <= value.seconds <= _LAST_SECOND and 0 <= value.nanos < 1_000_000_000)


def _durations(values: Values) -> pa.Array:
    return pa.array([None if v is None else _duration(v.seconds, v.nanos) for v in values], pa.string())


def _duration(seconds: int, nanos: int) -> str:
    """In seconds, as the JSON of Protocol Buffers has it: ``-1.5s``."""
    total = seconds * 1_000_000_000 + nanos
    whole, part = divmod(abs(total), 1_000_000_000)
    fraction = f".{part:09d}".rstrip("0") if part else ""
    return f"{'-' if total < 0 else ''}{whole}{fraction}s"


def _json_texts(values: Values) -> pa.Array:
    return pa.array([None if v is None else _json_text(v) for v in values], pa.string())


def _json_text(value: Any) -> str | None:
    if value.DESCRIPTOR.full_name == "google.protobuf.Value" and value.WhichOneof("kind") in (None, "null_value"):
        return None
    return str(json_format.MessageToJson(value, preserving_proto_field_name=True, indent=None, ensure_ascii=False))


_JSON = ValueColumn({"type": "string"}, pa.string(), _json_texts)
_WELL_KNOWN: Mapping[str, ValueColumn] = {
    "google.protobuf.Timestamp": ValueColumn({"type": "string", "name": "protobuf.Timestamp"}, pa.string(), _moments),
    "google.protobuf.Duration": ValueColumn({"type": "string"}, pa.string(), _durations),
    "google.protobuf.Struct": _JSON,
    "google.protobuf.Value": _JSON,
    "google.protobuf.ListValue": _JSON,
}
