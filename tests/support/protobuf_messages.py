"""Message types for tests, made without protoc, and values framed as a registry's serializer frames them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, struct_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf import duration_pb2 as duration_pb2

F: Any = descriptor_pb2.FieldDescriptorProto
_POOL_FILES = [timestamp_pb2, wrappers_pb2, struct_pb2, duration_pb2]
IMPORTS = [module.DESCRIPTOR.name for module in _POOL_FILES]


def field(name: str, number: int, kind: Any, *, repeated: bool = False, of: str = "", oneof: int | None = None) -> Any:
    """A field; ``of`` names the type of an enum or message, ``oneof`` the group that it is in."""
    made = F(name=name, number=number, type=kind, label=F.LABEL_REPEATED if repeated else F.LABEL_OPTIONAL)
    if of:
        made.type_name = of
    if oneof is not None:
        made.oneof_index = oneof
    return made


def optional(message: descriptor_pb2.DescriptorProto, made: Any) -> Any:
    """The field with presence, as ``optional`` of proto3 gives it, for a message."""
    message.oneof_decl.add(name=f"_{made.name}")
    made.oneof_index = len(message.oneof_decl) - 1
    made.proto3_optional = True
    return made


def map_entry(name: str, key: Any, value: Any) -> descriptor_pb2.DescriptorProto:
    """The message of a map's entries; ``value`` is its second field."""
    entry = descriptor_pb2.DescriptorProto(name=name, field=[field("key", 1, key), value])
    entry.options.map_entry = True
    return entry


def file(
    messages: Sequence[descriptor_pb2.DescriptorProto],
    enums: Sequence[descriptor_pb2.EnumDescriptorProto] = (),
    *,
    name: str = "shop.proto",
    imports: Sequence[str] = (),
    syntax: str = "proto3",
) -> descriptor_pb2.FileDescriptorProto:
    """A file of the package shop."""
    return descriptor_pb2.FileDescriptorProto(
        name=name, package="shop", syntax=syntax, message_type=messages, enum_type=enums,
        dependency=[*IMPORTS, *imports],
    )  # fmt: skip


def files_with(*files: descriptor_pb2.FileDescriptorProto) -> descriptor_pb2.FileDescriptorSet:
    """A descriptor file with the imports of the files."""
    library = [descriptor_pb2.FileDescriptorProto.FromString(m.DESCRIPTOR.serialized_pb) for m in _POOL_FILES]
    return descriptor_pb2.FileDescriptorSet(file=[*library, *files])


def class_of(files: descriptor_pb2.FileDescriptorSet, message: str) -> Any:
    """The class of a message by its full name."""
    pool = descriptor_pool.DescriptorPool()
    for one in files.file:
        pool.Add(one)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(message))


def serialized(one: descriptor_pb2.FileDescriptorProto) -> str:
    """A file as a registry serves it with ``format=serialized``."""
    return base64.b64encode(one.SerializeToString()).decode()


def framed(message: Any, number: int, path: Sequence[int] = (0,)) -> bytes:
    """A message behind the id of its schema and the indexes of its type."""
    indexes = b"\x00" if [*path] == [0] else _varint(len(path)) + b"".join(map(_varint, path))
    data: bytes = message.SerializeToString()
    return b"\x00" + number.to_bytes(4, "big") + indexes + data


def named(message: Any, name: str | None = None) -> bytes:
    """A message behind the name of its type, as Apicurio's serializer writes it (a ``Ref``)."""
    text = (name or message.DESCRIPTOR.name).encode()
    ref = b"\x0a" + _unsigned(len(text)) + text
    data: bytes = message.SerializeToString()
    return _unsigned(len(ref)) + ref + data


def _varint(number: int) -> bytes:
    return _unsigned(number << 1)


def _unsigned(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def order() -> descriptor_pb2.FileDescriptorProto:
    """A file with a message of all kinds of fields."""
    message = descriptor_pb2.DescriptorProto(name="Order")
    message.oneof_decl.add(name="pay")
    message.field.extend(
        [
            field("id", 1, F.TYPE_INT64),
            field("state", 2, F.TYPE_ENUM, of=".shop.State"),
            field("total", 3, F.TYPE_UINT64),
            field("card", 4, F.TYPE_STRING, oneof=0),
            field("cash", 5, F.TYPE_INT32, oneof=0),
            field("lines", 6, F.TYPE_MESSAGE, repeated=True, of=".shop.Order.Line"),
            field("tags", 7, F.TYPE_MESSAGE, repeated=True, of=".shop.Order.TagsEntry"),
            field("at", 8, F.TYPE_MESSAGE, of=".google.protobuf.Timestamp"),
            field("took", 9, F.TYPE_MESSAGE, of=".google.protobuf.Duration"),
            field("nick", 10, F.TYPE_MESSAGE, of=".google.protobuf.StringValue"),
            field("more", 11, F.TYPE_MESSAGE, of=".google.protobuf.Struct"),
            field("raw", 12, F.TYPE_BYTES),
            field("parent", 13, F.TYPE_MESSAGE, of=".shop.Order"),
        ]
    )
    message.field.append(optional(message, field("note", 14, F.TYPE_STRING)))
    line = descriptor_pb2.DescriptorProto(
        name="Line", field=[field("sku", 1, F.TYPE_STRING), field("qty", 2, F.TYPE_UINT32)]
    )
    message.nested_type.extend([line, map_entry("TagsEntry", F.TYPE_INT32, field("value", 2, F.TYPE_DOUBLE))])
    state = descriptor_pb2.EnumDescriptorProto(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=1)
    return file([message], [state])
