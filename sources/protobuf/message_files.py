"""Message types from descriptors: of a descriptor file, or of schemas that a registry serves in binary form.

A registry gives a file as its ``FileDescriptorProto`` in base64 (``?format=serialized``), and those that it imports as
references. The files of ``google/protobuf`` come with the library.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from paimon_table.errors import ConfigError, MalformedRecord

_OF_LIBRARY = {
    module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb
    for module in (
        any_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2,
    )
}  # fmt: skip
_MAIN = "the schema itself.proto"


@dataclass(frozen=True, slots=True, eq=False)
class MessageFile:
    """One file with message types."""

    pool: DescriptorPool
    name: str

    @classmethod
    def of(cls, message: Descriptor) -> MessageFile:
        """The file that has a message."""
        return cls(message.file.pool, message.file.name)

    def message_at(self, path: Sequence[int]) -> Descriptor:
        """The message at a list of indexes: in the file, then each in the one before. Raises MalformedRecord.

        Serializers may or may not count the messages for entries of maps: no value is one of these.
        """
        messages = [*self.pool.FindFileByName(self.name).message_types_by_name.values()]
        found: Descriptor | None = None
        for index in path:
            found = _at(messages, index)
            if found is not None and found.GetOptions().map_entry:
                found = _at([one for one in messages if not one.GetOptions().map_entry], index)
            if found is None:
                raise MalformedRecord(f"the schema has no message with the indexes {[*path]}")
            messages = list(found.nested_types)
        if found is None:
            raise MalformedRecord("the value names no message of its schema")
        return found

    def message_named(self, name: str | None) -> Descriptor:
        """The message of a name, or the only one of the file without a name. Raises MalformedRecord."""
        file = self.pool.FindFileByName(self.name)
        messages: dict[str, Descriptor] = dict(file.message_types_by_name)
        if name is None and len(messages) == 1:
            return next(iter(messages.values()))
        found = None if name is None else messages.get(name) or messages.get(name.removeprefix(f"{file.package}."))
        if found is None:
            told = "no header names the message" if name is None else f"it has no message {name}"
            raise MalformedRecord(f"the schema has the messages {', '.join(sorted(messages)) or 'none'}, and {told}")
        return found


def _at(messages: Sequence[Descriptor], index: int) -> Descriptor | None:
    return messages[index] if 0 <= index < len(messages) else None


def read_serialized(text: str, references: Iterable[tuple[str, str]]) -> MessageFile:
    """The file of a registry's answer; ``references`` are names and texts of its imports. Raises MalformedRecord."""
    files = {name: _file_of_text(name, inner) for name, inner in references}
    files[_MAIN] = _file_of_text(_MAIN, text)
    return MessageFile(_pool(files), _MAIN)


def _file_of_text(name: str, text: str) -> descriptor_pb2.FileDescriptorProto:
    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text.encode("ascii"), validate=True))
    except (DecodeError, binascii.Error, ValueError):
        raise MalformedRecord(
            "the registry does not serve it in binary form (?format=serialized): name a descriptor_file, as protoc"
            " writes with --descriptor_set_out and --include_imports"
        ) from None
    file.name = name
    return file


def _pool(files: Mapping[str, descriptor_pb2.FileDescriptorProto]) -> DescriptorPool:
    pool = DescriptorPool()
    added: set[str] = set()

    def add(name: str, importer: str) -> None:
        if name in added:
            return
        added.add(name)
        file = files.get(name)
        if file is None and name in _OF_LIBRARY:
            file = descriptor_pb2.FileDescriptorProto.FromString(_OF_LIBRARY[name])
        if file is None:
            raise MalformedRecord(f"{importer} imports {name}, which is not there")
        for other in file.dependency:
            add(other, name)
        try:
            pool.Add(file)
        except TypeError as error:
            raise MalformedRecord(f"{name} is not a usable file of messages: {error}") from None

    for name in files:
        add(name, name)
    return pool


@lru_cache(maxsize=64)
def message_of_file(place: str, message: str) -> Descriptor:
    """The message of a full name in a descriptor file. Raises ConfigError if there is none."""
    try:
        data = Path(place.removeprefix("file://")).read_bytes()
        files = descriptor_pb2.FileDescriptorSet.FromString(data).file
        if not files:
            raise MalformedRecord("it has no files")
        pool = _pool({file.name: file for file in files})
    except OSError as error:
        raise ConfigError(f"descriptor_file {place} cannot be read: {error.strerror}") from error
    except (DecodeError, MalformedRecord) as error:
        raise ConfigError(
            f"descriptor_file {place} cannot be used ({error}): write it with protoc --include_imports"
            " --descriptor_set_out"
        ) from error
    try:
        return pool.FindMessageTypeByName(message)
    except KeyError:
        known = sorted(_names(files))
        raise ConfigError(
            f"message {message!r} is not in descriptor_file {place}; it has: {', '.join(known[:20]) or 'none'}"
        ) from None


def _names(files: Iterable[descriptor_pb2.FileDescriptorProto]) -> Iterable[str]:
    for file in files:
        prefix = f"{file.package}." if file.package else ""
        yield from (prefix + message.name for message in file.message_type)


def message_class(message: Descriptor) -> type[Any]:
    """The class of a message type."""
    found: type[Any] = message_factory.GetMessageClass(message)
    return found
