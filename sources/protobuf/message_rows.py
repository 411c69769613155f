"""Many messages of one type as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor
from google.protobuf.json_format import Error
from google.protobuf.message import DecodeError

from paimon_table.errors import MalformedRecord
from sources.json_changes.embedded_schema import EmbeddedSchema
from sources.protobuf.field_columns import FieldColumn, field_columns
from sources.protobuf.message_files import message_class
from sources.values.connect_types import struct_columns

_FAULTS = (ValueError, ArithmeticError, Error, pa.ArrowInvalid, TypeError, RecursionError)
"""Errors in the values of readable messages: texts of proto2 that are not UTF-8, NaN inside JSON."""


@dataclass(frozen=True, slots=True, eq=False)
class MessageRows:
    """A message type: its columns, and how values are read."""

    message: Descriptor
    cls: type[Any]
    columns: tuple[FieldColumn, ...]
    schema: EmbeddedSchema

    def parsed(self, data: bytes) -> Any:
        """The message that a value is. Raises MalformedRecord."""
        try:
            return self.cls.FromString(data)
        except DecodeError:
            raise MalformedRecord(f"value cannot be read as the message {self.message.full_name}") from None

    def rows(self, messages: Sequence[Any]) -> pa.StructArray:
        """Messages as rows. Raises MalformedRecord if a message cannot be a row."""
        fields = [pa.field(column.name, column.form) for column in self.columns]
        try:
            children = [column.array(messages) for column in self.columns]
        except _FAULTS as error:
            raise MalformedRecord(
                f"value is a message {self.message.full_name} with a value that no column holds: {type(error).__name__}"
            ) from error
        if not children:
            raise MalformedRecord(f"the message {self.message.full_name} has no fields, so it has no columns")
        return pa.StructArray.from_arrays(children, fields=fields)

    def row(self, message: Any) -> Mapping[str, Any]:
        """One message as a row. Raises MalformedRecord."""
        found: Mapping[str, Any] = self.rows([message]).to_pylist(maps_as_pydicts="lossy")[0]
        return found


@lru_cache(maxsize=1024)
def message_rows(message: Descriptor) -> MessageRows:
    """Turns the values of a message type into rows. Raises MalformedRecord if that is not possible."""
    columns = field_columns(message)
    takes_null = {field.name: field.has_presence for field in message.fields}
    struct = {"fields": [{**c.schema, "field": c.name, "optional": takes_null[c.name]} for c in columns]}
    return MessageRows(message, message_class(message), columns, EmbeddedSchema(struct_columns(struct)))
