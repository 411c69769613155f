"""Plain Avro: each value is a record of the schema that wrote it, which it names or which one file has."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_table.errors import ConfigError, MalformedRecord
from sources.avro.connect_schema import connect_struct
from sources.avro.exact_values import exact_value
from sources.avro.framing import BAD_HEADER, NULL, Frames, Framing
from sources.avro.registry import AVRO, registry_of
from sources.avro.registry_settings import RegistrySettings
from sources.avro.writer_schema import AvroKind, Node, read_writer_schema
from sources.json_changes.embedded_schema import EmbeddedSchema
from sources.json_changes.outcome import Outcome
from sources.plain.avro_options import AvroSchemas
from sources.plain.column_rows import ColumnRows
from sources.plain.message_keys import OwnKey
from sources.upsert_avro.avro_rows import AvroRows, row_schema
from sources.wording import EMPTY


@dataclass(frozen=True, slots=True)
class AvroValues:
    """See ``decoder.PlainValues``."""

    batch: pa.RecordBatch
    schemas: AvroSchemas
    frames: Frames = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "frames", self._frames())

    def _frames(self) -> Frames:
        if self.schemas.schema_file is None:
            return Framing(self.batch, "value").frames
        codes = np.where(np.asarray(self.batch.column("value").is_valid()), 0, NULL).astype(np.int64)
        return Frames((), (), codes, np.zeros(len(codes), np.int64))

    def schema(self, code: int) -> Node:
        """The writer schema of a code. Raises MalformedRecord if there is none."""
        if self.schemas.schema_file is not None:
            return schema_of_file(self.schemas.schema_file)
        assert self.schemas.registry is not None
        return registry_of(self.schemas.registry, AVRO).schema(self.frames.refs[code])

    @property
    def own_keys(self) -> AvroKeys | None:
        """See ``decoder.PlainValues``."""
        settings = self.schemas.registry
        return None if settings is None else AvroKeys(self.batch.column("key"), Framing(self.batch, "key"), settings)

    def parse(self, column: str, position: int) -> Any:
        """See ``decoder.PlainValues``."""
        data, code = self.batch.column(column)[position].as_py(), int(self.frames.codes[position])
        if data is None:
            return None
        if code < 0:
            return MalformedRecord(self.no_schema(code, data))
        try:
            return exact_value(self.schema(code), data, int(self.frames.skipped[position]))
        except MalformedRecord as error:
            return MalformedRecord(f"value cannot be read as Avro{self._of(code)}: {error}")

    def _of(self, code: int) -> str:
        return f" of {self.frames.refs[code]}" if self.frames.refs else ""

    def rows(self, outcome: Outcome) -> AvroRows:
        """See ``decoder.PlainValues``."""
        return AvroRows(self, partial(ColumnRows, outcome=outcome), outcome)

    def row(self, schema: Node) -> EmbeddedSchema:
        """See ``sources.upsert_avro.avro_rows.AvroSchemas``."""
        return _row_schema(schema)

    def no_schema(self, code: int, data: bytes) -> str:
        """See ``sources.upsert_avro.avro_rows.AvroSchemas``."""
        if code == BAD_HEADER:
            return "the headers of the record name no usable schema of the value: the serializer must write binary Avro"
        if not data:
            return f"value {EMPTY}"
        if data.lstrip()[:1] in (b"{", b"["):
            return "value is JSON, not Avro: use format json"
        return (
            "value names no schema: neither a header nor its first byte does. Use a serializer with a schema registry,"
            " or name the schema of bare Avro as schema_file"
        )


@lru_cache(maxsize=1024)
def _row_schema(schema: Node) -> EmbeddedSchema:
    return row_schema(schema, partial(connect_struct, is_plain=True))


@lru_cache(maxsize=64)
def schema_of_file(place: str) -> Node:
    """The schema of ``schema_file``. Raises ConfigError if there is none."""
    try:
        text = Path(place.removeprefix("file://")).read_text(encoding="utf-8")
        return read_writer_schema(text)
    except OSError as error:
        raise ConfigError(f"schema_file {place} cannot be read: {error.strerror}") from error
    except (MalformedRecord, UnicodeDecodeError) as error:
        raise ConfigError(f"schema_file {place} is not an Avro schema: {error}") from error


@dataclass(frozen=True, slots=True)
class AvroKeys:
    """See ``message_keys.OwnKeys``."""

    keys: pa.Array
    framing: Framing
    settings: RegistrySettings

    def at(self, position: int) -> OwnKey | None:
        """See ``message_keys.OwnKeys``."""
        frames = self.framing.frames
        code = int(frames.codes[position])
        if code < 0:
            return None
        try:
            node = registry_of(self.settings, AVRO).schema(frames.refs[code])
            value = exact_value(node, self.keys[position].as_py(), int(frames.skipped[position]))
        except MalformedRecord as error:
            raise MalformedRecord(f"the message key cannot be read as Avro: {error}") from None
        record = node.value
        is_record = record is not None and record.kind is AvroKind.RECORD and isinstance(value, dict)
        return OwnKey(value, connect_struct(record, is_plain=True) if record is not None and is_record else None)
