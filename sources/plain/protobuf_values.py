"""Protocol Buffers: each value is a message, of the type that it names in its registry or that one file has.

    0, id of 4 bytes, indexes, message    with a registry (Confluent's form)
    message                               bare

Indexes are a count and as many numbers, all of them zigzag varints: the place of the message in its file, then inside
of that message. A single byte 0 stands for the first message. No message begins with a byte 0, so that byte is a
prefix.

With the schema in a header, the indexes stand behind it there (Confluent), or another header has the name of the
message (Apicurio); the value is the message alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_table.errors import MalformedRecord
from sources.avro.framing import BAD_HEADER, NULL, Frames, Framing
from sources.avro.registry import SchemaLanguage, registry_of
from sources.json_changes.outcome import Outcome, Parse
from sources.plain.column_rows import ColumnRows
from sources.plain.protobuf_options import ProtobufSchemas
from sources.protobuf.message_files import indexes_of, message_of_file, read_serialized
from sources.protobuf.message_rows import MessageRows, message_rows
from sources.upsert_json.record_headers import RecordHeaders
from sources.upsert_json.row_decoding import Positions, RowGroup

PROTOBUF = SchemaLanguage("PROTOBUF", "Protocol Buffers", "serialized", read_serialized)
_MOST_INDEXES = 100
_NAME_HEADER = "apicurio.protobuf.type"


@dataclass(frozen=True, slots=True)
class ProtobufFormat:
    """See ``decoder.PlainFormat``."""

    schemas: ProtobufSchemas

    def values(self, batch: pa.RecordBatch) -> ProtobufValues:
        """See ``decoder.PlainFormat``."""
        return ProtobufValues(batch, self.schemas)


@dataclass(frozen=True, slots=True)
class ProtobufValues:
    """See ``decoder.PlainValues``."""

    batch: pa.RecordBatch
    schemas: ProtobufSchemas
    own_keys: None = None
    frames: Frames = field(init=False)
    names: pa.Array | None = field(init=False)
    """The names of messages in headers."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "frames", Framing(self.batch, "value", has_tails=True).frames)
        object.__setattr__(self, "names", RecordHeaders(self.batch).texts(_NAME_HEADER))

    def message_of(self, data: bytes, position: int) -> tuple[MessageRows, Any]:
        """The message that the value at a position is, and its type. Raises MalformedRecord."""
        code = int(self.frames.codes[position])
        path, name = None, None
        tail = self.frames.tails[code] if code >= 0 else None
        if tail:
            path, _ = _indexes(tail, 0)
        elif tail is not None:
            name = None if self.names is None else self.names[position].as_py()
        elif code >= 0:
            path, begin = _indexes(data, int(self.frames.skipped[position]))
            data = data[begin:]
        kind = self.type_of(code, path, name)
        return kind, kind.parsed(data)

    def type_of(self, code: int, path: tuple[int, ...] | None, name: str | None) -> MessageRows:
        """The message type behind a code and indexes, or a name. Raises MalformedRecord."""
        if self.schemas.descriptor_file is not None:
            message = message_of_file(self.schemas.descriptor_file, self.schemas.message or "")
            if name is not None and name not in (message.name, message.full_name):
                raise MalformedRecord(f"a header says that the value is the message {name}, not {message.full_name}")
            if path is not None and path != indexes_of(message):
                raise MalformedRecord(
                    f"the indexes of the message are {[*path]}, and {message.full_name} has {[*indexes_of(message)]}:"
                    " the value is another message of the file"
                )
            return message_rows(message)
        if code == BAD_HEADER:
            raise MalformedRecord("the headers of the record name no usable schema of the value")
        if code < 0:
            raise MalformedRecord(
                "value names no schema: it does not begin with byte 0 and an id; use a serializer with a schema"
                " registry, or name the descriptor_file of bare messages"
            )
        assert self.schemas.registry is not None
        file = registry_of(self.schemas.registry, PROTOBUF).schema(self.frames.refs[code])
        return message_rows(file.message_named(name) if path is None else file.message_at(path))

    @property
    def parse(self) -> Parse:
        """See ``decoder.PlainValues``."""
        return self._parsed

    def _parsed(self, column: str, position: int) -> Any:
        data = self.batch.column(column)[position].as_py()
        if data is None:
            return None
        try:
            kind, message = self.message_of(data, position)
            return kind.row(message)
        except MalformedRecord as error:
            return error

    def rows(self, outcome: Outcome) -> ProtobufRows:
        """See ``decoder.PlainValues``."""
        return ProtobufRows(self, outcome)


@dataclass(frozen=True, slots=True)
class ProtobufRows:
    """See ``sources.upsert_json.row_decoding.RowReading``."""

    values: ProtobufValues
    outcome: Outcome

    def rows_of(self, topic: str, positions: Positions) -> tuple[list[RowGroup], Positions]:
        """The rows by message type, and the positions of records without a value."""
        is_null = self.values.frames.codes[positions] == NULL
        by_type: dict[MessageRows, list[tuple[int, Any]]] = {}
        there = positions[~is_null]
        for position, data in zip(there.tolist(), self.outcome.values_at(there).to_pylist(), strict=True):
            try:
                kind, message = self.values.message_of(data, position)
                by_type.setdefault(kind, []).append((position, message))
            except MalformedRecord as error:
                self.outcome.quarantine(position, str(error))
        rows = ColumnRows(topic, self.outcome)
        return [self._group(rows, kind, found) for kind, found in by_type.items()], positions[is_null]

    def _group(self, rows: ColumnRows, kind: MessageRows, found: Sequence[tuple[int, Any]]) -> RowGroup:
        parts = self._arrays(kind, found)
        if not parts:
            return rows.group(kind.schema, None)
        positions = np.array([position for part, _ in parts for position in part], np.int64)
        return rows.group(kind.schema, (positions, pa.concat_arrays([array for _, array in parts])))

    def _arrays(self, kind: MessageRows, found: Sequence[tuple[int, Any]]) -> list[tuple[list[int], pa.StructArray]]:
        """Rows in order; a message that cannot be a row goes to quarantine."""
        try:
            return [([position for position, _ in found], kind.rows([message for _, message in found]))]
        except MalformedRecord as error:
            if len(found) == 1:
                self.outcome.quarantine(found[0][0], str(error))
                return []
        middle = len(found) // 2
        return [*self._arrays(kind, found[:middle]), *self._arrays(kind, found[middle:])]


def _indexes(data: bytes, begin: int) -> tuple[tuple[int, ...], int]:
    """The indexes of a message, and where it begins. Raises MalformedRecord."""
    if data[begin : begin + 1] == b"\x00":
        return (0,), begin + 1
    count, begin = _varint(data, begin)
    if not 0 < count <= _MOST_INDEXES:
        raise MalformedRecord("the indexes of the message, behind the id of its schema, cannot be read")
    path = []
    for _ in range(count):
        index, begin = _varint(data, begin)
        path.append(index)
    return tuple(path), begin


def _varint(data: bytes, begin: int) -> tuple[int, int]:
    number = 0
    for size, byte in enumerate(data[begin : begin + 5]):
        number |= (byte & 0x7F) << 7 * size
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), begin + size + 1
    raise MalformedRecord("the indexes of the message, behind the id of its schema, cannot be read")
