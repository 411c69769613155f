"""Protocol Buffers: each value is a message, of the type that it names in its registry or that one file has.

    0, id of 4 bytes, indexes, message          with a registry (Confluent)
    0, id of 4 or 8 bytes, Ref, message         with a registry (Apicurio)
    message                                     bare

``sources.protobuf.message_names`` says what indexes and Ref are. No message begins with a byte 0, so that byte is a
prefix.

If a header has the schema, the indexes follow it there (Confluent), or another header has the name of the message
(Apicurio). The value may then still begin with a Ref: with Apicurio 3 and later it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor import Descriptor

from paimon_table.errors import MalformedRecord
from sources.avro.framing import BAD_HEADER, NULL, Frames, Framing
from sources.avro.registry import SchemaLanguage, registry_of
from sources.json_changes.outcome import Outcome
from sources.plain.column_rows import ColumnRows
from sources.plain.protobuf_options import ProtobufSchemas
from sources.protobuf.message_files import MessageFile, message_of_file, read_serialized
from sources.protobuf.message_names import MessageRef, indexes_in_front, name_in_front
from sources.protobuf.message_rows import MessageRows, message_rows
from sources.upsert_json.record_headers import RecordHeaders
from sources.upsert_json.row_decoding import Positions, RowGroup

PROTOBUF = SchemaLanguage("PROTOBUF", "Protocol Buffers", "serialized", read_serialized)
_NAME_HEADER = "apicurio.protobuf.type"


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
        if code < 0:
            kind, begin = self.type_of(code, MessageRef()), 0
        elif self.frames.tails[code] is None:
            kind, begin = self._named_in_value(code, data, int(self.frames.skipped[position]))
        else:
            kind, begin = self._named_in_header(code, data, position)
        return kind, kind.parsed(data[begin:] if begin else data)

    def _named_in_value(self, code: int, data: bytes, begin: int) -> tuple[MessageRows, int]:
        """The type that a Ref or indexes after an id name, and the begin of the message."""
        named = name_in_front(data, begin)
        if named is None:
            ref, end = indexes_in_front(data, begin)
            return self.type_of(code, ref), end
        try:
            by_indexes = self.type_of(code, indexes_in_front(data, begin)[0])
        except MalformedRecord:
            return self.type_of(code, named[0]), named[1]
        try:
            self.type_of(code, named[0])
        except MalformedRecord:
            return by_indexes, indexes_in_front(data, begin)[1]
        raise MalformedRecord(
            "the indexes of the message, as Confluent writes them, may be a name as Apicurio writes it, and the schema"
            " has both messages. Let the producer name the schema in a header"
        )

    def _named_in_header(self, code: int, data: bytes, position: int) -> tuple[MessageRows, int]:
        """The type that headers name, and where the message begins."""
        tail = self.frames.tails[code]
        if tail:
            return self.type_of(code, indexes_in_front(tail, 0)[0]), 0
        told = None if self.names is None else self.names[position].as_py()
        named = name_in_front(data, 0)
        if named is not None and (told is None or _is_same_message(told, named[0].name or "")):
            return self.type_of(code, named[0]), named[1]
        return self.type_of(code, MessageRef(name=told)), 0

    def type_of(self, code: int, ref: MessageRef) -> MessageRows:
        """The message type that is meant in the schema of a code. Raises MalformedRecord."""
        if self.schemas.descriptor_file is not None:
            return message_rows(self._stated(self.schemas.descriptor_file, ref))
        if code == BAD_HEADER:
            raise MalformedRecord("the headers of the record name no usable schema of the value")
        if code < 0:
            raise MalformedRecord(
                "value names no schema: it does not begin with byte 0 and an id. Use a serializer with a schema"
                " registry, or name the descriptor_file of bare messages"
            )
        assert self.schemas.registry is not None
        file = registry_of(self.schemas.registry, PROTOBUF).schema(self.frames.refs[code])
        return message_rows(file.message_named(ref.name) if ref.path is None else file.message_at(ref.path))

    def _stated(self, place: str, ref: MessageRef) -> Descriptor:
        """The message that the options state, which records may not contradict. Raises MalformedRecord."""
        message = message_of_file(place, self.schemas.message or "")
        if ref.name is not None and ref.name not in (message.name, message.full_name):
            raise MalformedRecord(f"value is not a message {message.full_name}: it says that it is {ref.name}")
        meant = message if ref.path is None else MessageFile.of(message).message_at(ref.path)
        if meant.full_name != message.full_name:
            raise MalformedRecord(f"value is not a message {message.full_name}: it says that it is {meant.full_name}")
        return message

    def parse(self, column: str, position: int) -> Any:
        """See ``decoder.PlainValues``."""
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


def _is_same_message(one: str, other: str) -> bool:
    """Whether two names, with or without their packages, may name the same message."""
    return one == other or one.endswith(f".{other}") or other.endswith(f".{one}")


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
        """Rows in order; a message that cannot become a row goes to quarantine."""
        try:
            return [([position for position, _ in found], kind.rows([message for _, message in found]))]
        except MalformedRecord as error:
            if len(found) == 1:
                self.outcome.quarantine(found[0][0], str(error))
                return []
        middle = len(found) // 2
        return [*self._arrays(kind, found[:middle]), *self._arrays(kind, found[middle:])]
